"""Description of a synthetic clip: codec, structure, timing and look; and named kinds of clips."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, cycle, islice
from types import MappingProxyType
from typing import Literal, NamedTuple

from headrace.errors import ConfigError
from headrace.testing.synth_containers import CODECS_WITH_B_FRAMES, Codec, Container
from headrace.testing.synth_pixels import Colour
from headrace.video.frame_barcode import MIN_SIDE, NUMBERS

Structure = Literal["b_pyramid", "intra_refresh", "hidden_packets", "interlaced"]

_STRUCTURE_CODECS = {
    "b_pyramid": ("h264", "hevc"),
    "intra_refresh": ("h264",),
    "hidden_packets": ("vp8", "vp9"),
    "interlaced": ("h264", "mpeg2video"),
}


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Display times that differ from an even rate, from zero on."""

    start_seconds: Fraction = Fraction(0)
    """Presentation time of the first shown frame; negative only in "ts"."""
    durations_seconds: tuple[Fraction, ...] = ()
    """Durations of frames, cyclic; empty: by the frame rate."""
    preroll: int = 0
    """Number of frames before the first shown one, which the edit list removes ("mp4" and "mov"
    only). They carry the last numbers, up to `NUMBERS` - 1."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """Storage of frames that differs from upright 8-bit 4:2:0 without tags."""

    pixel_format: str = "yuv420p"
    """Pixel format by FFmpeg's name; the encoder must support it."""
    rotation: Literal[0, 90, 180, 270] = 0
    """Rotation by the player from the stored to the upright frame, in degrees counter-clockwise."""
    mirrored: bool = False
    """Whether the player must also flip the rotated frame left-right."""
    colour: Colour | None = None
    """Tagged colour; None: BT.601, limited range, without tags."""
    bars: bool = False
    """Whether colour bars replace the moving texture: see `synth_pixels.BARS`."""
    palette_turns: bool = False
    """Whether a "pal8" stream changes its palette every 16 frames, with equal colours; AVI stores
    it."""


class Picture(NamedTuple):
    """A frame of the encoder's input."""

    number: int
    seconds: Fraction
    """Display time; for a hidden frame, its decode time."""
    is_hidden: bool
    """Whether it is decoded but never shown."""


@dataclass(frozen=True, kw_only=True)
class SynthClip:
    """A clip of `num_frames` frames whose pixels carry the numbers 0, 1, 2... as shown.

    Raises:
        ConfigError: fields contradict each other, or a number is out of range.
    """

    codec: Codec = "h264"
    container: Container = "mp4"
    """Also the suffix of the file."""
    num_frames: int = 48
    """Number of frames that a player shows."""
    size: tuple[int, int] = (96, 128)
    """(height, width) of the upright frame, in pixels."""
    frame_rate: Fraction = Fraction(30)
    """Frames per second declared by the stream."""
    gop: int = 12
    """Maximum distance between keyframes, in frames."""
    b_frames: int = 0
    """Exact number of B-frames between two other frames, if they fit."""
    open_gop: bool = False
    """Whether B-frames shown before a keyframe may refer to the GOP before it."""
    structure: Structure | None = None
    """`b_pyramid`: B-frames refer to B-frames. `intra_refresh`: after the first keyframe, a column
    of intra blocks moves through P-frames. `hidden_packets`: some packets have a frame that is
    decoded but never shown, so there are more packets than frames. `interlaced`: the two fields of
    a frame are coded separately if that is smaller, the top field first."""
    timing: Timing = Timing()
    look: Look = Look()
    encoder_options: tuple[tuple[str, str], ...] = ()
    """Further options of FFmpeg's encoder. They replace options set here; for a list option
    ("x264-params"), the entries of the same name."""
    bitstream_filters: tuple[str, ...] = ()
    """Filters for the packets, in order, in FFmpeg's syntax: "h264_metadata=aud=insert"."""
    container_options: tuple[tuple[str, str], ...] = ()
    """Further options of FFmpeg's muxer, such as ("movflags", "frag_keyframe+empty_moov")."""

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ConfigError(problem)

    @property
    def pts_seconds(self) -> tuple[Fraction, ...]:
        """Exact display time of each frame; a container may round it to its ticks."""
        durations = cycle(self.timing.durations_seconds or (1 / self.frame_rate,))
        steps = islice(durations, self.num_frames - 1)
        return tuple(accumulate(steps, initial=self.timing.start_seconds))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """All encoded frames in order: the preroll, shown frames, hidden frames."""
        step = 1 / self.frame_rate
        start = self.timing.start_seconds
        before = range(-self.timing.preroll, 0)
        pictures = [Picture(number % NUMBERS, start + number * step, False) for number in before]
        for number, seconds in enumerate(self.pts_seconds):
            if self.codec == "vp8" and self.structure == "hidden_packets" and number % 8 == 5:
                # Like an alternate reference frame, it is a later frame.
                ahead = min(number + 4, self.num_frames - 1)
                pictures.append(Picture(ahead, seconds - step / 2, True))
            pictures.append(Picture(number, seconds, False))
        return tuple(pictures)


def _problems(clip: SynthClip) -> Iterator[str]:
    codec, container, timing = clip.codec, clip.container, clip.timing
    if not 1 <= clip.num_frames <= NUMBERS - timing.preroll:
        yield f"num_frames must be in [1, {NUMBERS}], got {clip.num_frames}"
    if min(clip.size) < MIN_SIDE:
        yield f"size must be at least {MIN_SIDE}x{MIN_SIDE}, got {clip.size}"
    is_odd = any(side % 2 for side in clip.size)
    if is_odd and codec in ("h264", "hevc") and "420" in clip.look.pixel_format:
        yield f"{codec} in 4:2:0 needs even sizes, got {clip.size}; use yuv444p, or vp9"
    if clip.b_frames and codec not in CODECS_WITH_B_FRAMES:
        yield f"{codec} has no B-frames; use one of {', '.join(CODECS_WITH_B_FRAMES)}"
    if clip.open_gop and not clip.b_frames:
        yield "an open GOP needs b_frames >= 1, got 0"
    if clip.structure and codec not in _STRUCTURE_CODECS[clip.structure]:
        codecs = ", ".join(_STRUCTURE_CODECS[clip.structure])
        yield f"structure {clip.structure!r} is for {codecs}, got codec {codec!r}"
    if timing.preroll and container not in ("mp4", "mov"):
        yield f"preroll needs an edit list, which {container!r} lacks; use mp4 or mov"
    if timing.start_seconds < 0 and container != "ts":
        yield f"{container!r} cannot start below zero; use ts"
    if any(duration <= 0 for duration in timing.durations_seconds):
        yield f"durations_seconds must be above zero, got {min(timing.durations_seconds)}"


_UNEVEN = (
    *(Fraction(ticks, 90_000) for ticks in (3000, 1500, 6000, 3003, 4500, 3000, 2997)),
    Fraction(5),
    *(Fraction(ticks, 90_000) for ticks in (3000, 9000, 1500, 3000, 3750)),
)

KINDS: Mapping[str, SynthClip] = MappingProxyType(
    {
        # References between frames.
        "h264": SynthClip(),
        "h264_b_frames": SynthClip(b_frames=2),
        "h264_b_pyramid": SynthClip(b_frames=3, gop=16, structure="b_pyramid"),
        "h264_open_gop": SynthClip(b_frames=2, open_gop=True),
        "h264_intra_refresh": SynthClip(structure="intra_refresh"),
        "h264_long_gop": SynthClip(num_frames=270, size=(64, 96), gop=250, b_frames=2),
        "h264_one_frame": SynthClip(num_frames=1),
        "hevc": SynthClip(codec="hevc", b_frames=3, structure="b_pyramid"),
        "hevc_open_gop": SynthClip(codec="hevc", b_frames=3, open_gop=True, structure="b_pyramid"),
        "vp8": SynthClip(codec="vp8", container="webm"),
        "vp8_hidden": SynthClip(codec="vp8", container="webm", structure="hidden_packets"),
        "vp9": SynthClip(codec="vp9", container="webm", gop=32),
        "vp9_hidden": SynthClip(codec="vp9", container="webm", gop=32, structure="hidden_packets"),
        "av1": SynthClip(codec="av1", container="webm", gop=24),
        "mpeg4": SynthClip(codec="mpeg4", b_frames=2),
        "mpeg4_open_gop": SynthClip(codec="mpeg4", b_frames=2, open_gop=True),
        "mjpeg": SynthClip(codec="mjpeg", look=Look(pixel_format="yuvj420p")),
        "ffv1": SynthClip(codec="ffv1", container="mkv"),
        # Display times.
        "vfr_mp4": SynthClip(b_frames=2, timing=Timing(durations_seconds=_UNEVEN)),
        "vfr_mkv": SynthClip(b_frames=2, container="mkv", timing=Timing(durations_seconds=_UNEVEN)),
        "late_start": SynthClip(b_frames=2, timing=Timing(start_seconds=Fraction(5))),
        "preroll": SynthClip(b_frames=2, timing=Timing(preroll=5)),
        "ts": SynthClip(b_frames=2, container="ts", timing=Timing(start_seconds=Fraction(1))),
        "ts_late_start": SynthClip(
            b_frames=2, container="ts", timing=Timing(start_seconds=Fraction(31_815))
        ),
        "ts_negative_start": SynthClip(
            b_frames=2, container="ts", timing=Timing(start_seconds=Fraction(-5))
        ),
        "avi_mpeg4": SynthClip(codec="mpeg4", b_frames=2, container="avi"),
        "avi_h264": SynthClip(b_frames=2, container="avi"),
        "annex_b": SynthClip(b_frames=2, container="h264"),
        # Storage of frames.
        "rotated_90": SynthClip(b_frames=2, look=Look(rotation=90)),
        "rotated_180": SynthClip(b_frames=2, look=Look(rotation=180)),
        "rotated_270": SynthClip(b_frames=2, look=Look(rotation=270)),
        "mirrored": SynthClip(b_frames=2, look=Look(mirrored=True)),
        "mirrored_and_rotated": SynthClip(b_frames=2, look=Look(rotation=90, mirrored=True)),
        "odd_size": SynthClip(codec="vp9", container="webm", size=(75, 53)),
        "odd_size_444": SynthClip(b_frames=2, size=(75, 53), look=Look(pixel_format="yuv444p")),
        "h264_10_bit": SynthClip(b_frames=2, look=Look(pixel_format="yuv420p10le")),
        "hevc_10_bit": SynthClip(codec="hevc", b_frames=3, look=Look(pixel_format="yuv420p10le")),
        "bt601": SynthClip(look=Look(colour=Colour(matrix="bt601"), bars=True)),
        "bt709": SynthClip(look=Look(colour=Colour(matrix="bt709"), bars=True)),
        "bt709_full": SynthClip(
            look=Look(colour=Colour(matrix="bt709", full_range=True), bars=True)
        ),
        "bt2020": SynthClip(
            codec="hevc",
            look=Look(pixel_format="yuv420p10le", colour=Colour(matrix="bt2020"), bars=True),
        ),
    }
)
"""Name of a kind → its clip. All carry the numbers 0, 1, 2... in display order."""
