"""Files at random: clips of every kind, rewritten, joined, cut and damaged.

draw = draw_clip(Random(7))
path = write_draw(tmp_path / "clip", draw)      # draw.name describes it

Every way of decoding must give what a linear decode gives.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Literal

from headrace.testing import damage
from headrace.testing.synth import write_clip
from headrace.testing.synth_clip import SynthClip
from headrace.testing.synth_containers import Codec, Container
from tests.kit import rewrite_mp4, rewrite_pes, rewrite_streams, rewrite_vp9
from tests.kit.synth_draw_clip import draw_synth_clip

Rewrite = Literal[
    "held_times", "missing_times", "every_sample_sync", "show_existing", "intra_only", "no_index"
]

_CUT: tuple[Container, ...] = ("mp4", "mov", "3gp", "mkv", "webm", "ts", "avi", "flv")
_PES: tuple[Container, ...] = ("ts", "mpg", "vob", "svcd")
_JOINED: dict[Container, tuple[Codec, ...]] = {
    "ts": ("h264", "hevc", "mpeg1video", "mpeg2video"),
    "webm": ("vp8", "vp9", "av1"),
    "mkv": ("vp8", "vp9", "av1", "mpeg2video"),
    "h264": ("h264",),
    "hevc": ("hevc",),
    "m2v": ("mpeg2video",),
}


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A file drawn at random, as a value. Changes are applied in the order of the fields."""

    clip: SynthClip
    rewrite: Rewrite | None = None
    """held_times: three packets share each time. missing_times: two of three packets have none.
    every_sample_sync: the index marks every packet as a keyframe. show_existing, intra_only: see
    `rewrite_vp9`. no_index: see `rewrite_streams`."""
    second_size: tuple[int, int] | None = None
    """The clip is followed by itself at this size (height, width), in the same stream."""
    start_ordinal: int = 0
    """The first packet that is kept; 0: all."""
    flipped_ordinals: tuple[int, ...] = ()
    """Packets, counted after the cut, in which bits are flipped."""

    @property
    def is_damaged(self) -> bool:
        """Whether bits are flipped, so that decoding may log errors."""
        return bool(self.flipped_ordinals)

    @property
    def name(self) -> str:
        """A description, valid as a file name."""
        flipped = ",".join(map(str, self.flipped_ordinals))
        words: list[object] = [
            *_words_of(self.clip),
            self.rewrite,
            self.second_size and "then{}x{}".format(*self.second_size),
            self.start_ordinal and f"cut{self.start_ordinal}",
            flipped and f"flipped{flipped}",
        ]
        return "-".join(str(word) for word in words if word)


def draw_clip(rng: Random) -> Draw:
    """Draw a file; the same state of `rng` gives the same one.

    FFmpeg can encode and mux all of them. About one in seven starts in the middle, one in twenty
    is damaged, one in ten is rewritten or changes its size, half of the AVI files have no index.
    Writing one takes 0.02 to 0.5 s.
    """
    clip = draw_synth_clip(rng)
    if _can_rewrite_vp9(clip) and rng.random() < 0.3:
        clip = replace(clip, encoder_options=rewrite_vp9.RESILIENT)
        return Draw(clip=clip, rewrite=rng.choice(["show_existing", "intra_only"]))
    rewrites = _rewrites_of(clip)
    draw = Draw(clip=clip)
    if rewrites and rng.random() < (0.5 if "no_index" in rewrites else 0.15):
        draw = replace(draw, rewrite=rng.choice(rewrites))
    elif _can_join(clip) and rng.random() < 0.25:
        draw = replace(draw, second_size=rng.choice([(48, 64), (112, 144)]))
    # Muxers refuse to copy packets whose times repeat.
    if _can_cut(clip) and draw.rewrite in (None, "every_sample_sync"):
        if rng.random() < 0.3:
            draw = replace(draw, start_ordinal=rng.randint(1, min(40, clip.num_frames - 10)))
        if _can_damage(draw) and rng.random() < 0.12:
            left = clip.num_frames - draw.start_ordinal - 2
            flipped = sorted(rng.sample(range(left), rng.randint(1, 3)))
            draw = replace(draw, flipped_ordinals=tuple(flipped))
    return draw


def write_draw(path: Path, draw: Draw) -> Path:
    """Write the file that `draw` describes and return its path.

    The container's suffix is added if `path` does not end in it. The same draw gives the same bytes
    with the same libraries.
    """
    suffix = draw.clip.container
    out = path if path.suffix == f".{suffix}" else path.with_name(f"{path.name}.{suffix}")
    with TemporaryDirectory() as parts:
        made = write_clip(Path(parts) / "whole", draw.clip)
        for step, change in enumerate(_changes_of(draw, Path(parts))):
            made = change(made, Path(parts) / f"step{step}.{suffix}")
        out.write_bytes(made.read_bytes())
    return out


def _changes_of(draw: Draw, parts: Path) -> list[Callable[[Path, Path], Path]]:
    changes: list[Callable[[Path, Path], Path]] = []
    if draw.rewrite == "held_times":
        is_pes = draw.clip.container in _PES
        changes.append(rewrite_pes.hold_times if is_pes else rewrite_mp4.hold_times)
    elif draw.rewrite:
        changes.append(_REWRITES[draw.rewrite])
    if draw.second_size:
        is_raw = draw.clip.container in ("h264", "hevc", "m2v")
        join = damage.concatenate if is_raw else damage.join_packets
        other = write_clip(parts / "second", replace(draw.clip, size=draw.second_size))
        changes.append(lambda path, out: join([path, other], out))
    if draw.start_ordinal:
        changes.append(partial(damage.cut_by_stream_copy, start_ordinal=draw.start_ordinal))
    if draw.flipped_ordinals:
        changes.append(partial(damage.damage_packets, ordinals=draw.flipped_ordinals))
    return changes


def _turn_keyframes(path: Path, out: Path) -> Path:
    return rewrite_vp9.intra_only(path, out, ordinals=damage.keyframe_ordinals(path)[1:])


_REWRITES: dict[Rewrite, Callable[[Path, Path], Path]] = {
    "missing_times": rewrite_pes.drop_times,
    "no_index": rewrite_streams.strip_index,
    "every_sample_sync": partial(rewrite_mp4.lie_about_keyframes, lie="every"),
    "show_existing": partial(rewrite_vp9.show_existing, ordinals=range(1, 1000, 7)),
    "intra_only": _turn_keyframes,
}
"""Functions that rewrite a file; that of held times depends on the container."""


def _rewrites_of(clip: SynthClip) -> list[Rewrite]:
    if clip.container in _PES:
        return ["held_times", "missing_times"]
    if clip.container == "avi":
        return ["no_index"]
    rewrites: list[Rewrite] = []
    is_plain_mp4 = clip.container in ("mp4", "mov", "3gp") and not clip.container_options
    if is_plain_mp4 and clip.codec in ("h264", "hevc", "h263", "mpeg4") and clip.gop > 1:
        rewrites.append("every_sample_sync")
        if not clip.b_frames and not clip.timing.durations_seconds:
            rewrites.append("held_times")
    return rewrites


def _can_rewrite_vp9(clip: SynthClip) -> bool:
    is_plain = clip.look.pixel_format == "yuv420p" and clip.structure is None
    return is_plain and clip.codec == "vp9" and clip.container in ("webm", "mkv", "mp4", "ivf")


def _can_cut(clip: SynthClip) -> bool:
    """Return whether packets can be copied: Matroska stores no dts, FFmpeg guesses uneven ones."""
    is_even = not clip.timing.durations_seconds or clip.container not in ("mkv", "webm")
    return clip.container in _CUT and is_even and clip.num_frames > 20


def _can_damage(draw: Draw) -> bool:
    """Return whether damaged packets can be muxed: muxers parse those of AV1."""
    is_sure = not draw.start_ordinal or draw.clip.container not in ("mkv", "webm")
    return draw.clip.codec != "av1" and is_sure


def _can_join(clip: SynthClip) -> bool:
    """Return whether a second clip can follow: packets hold the changes, times continue."""
    is_plain = clip.structure in (None, "b_pyramid") and clip.timing.start_seconds == 0
    return is_plain and clip.codec in _JOINED.get(clip.container, ())


def _words_of(clip: SynthClip) -> list[object]:
    """Return the words of a name; false ones are omitted."""
    timing, look = clip.timing, clip.look
    return [
        *(clip.codec, clip.container, "{}x{}".format(*clip.size), look.pixel_format),
        *(f"{clip.num_frames}frames", f"gop{clip.gop}", f"b{clip.b_frames}"),
        clip.open_gop and "open",
        clip.structure,
        *(f"{name}={value}" for name, value in clip.encoder_options),
        *clip.bitstream_filters,
        clip.container_options and "fragmented",
        timing.durations_seconds and "vfr",
        timing.start_seconds and f"start{float(timing.start_seconds):g}s",
        timing.preroll and f"preroll{timing.preroll}",
        look.palette_turns and "palettes",
        look.rotation and f"rotated{look.rotation}",
    ]
