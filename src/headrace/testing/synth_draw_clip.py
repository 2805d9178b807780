"""Clips at random: codec, container, options, structure, timing, size and look.

Only what FFmpeg agrees to encode and to mux is drawn.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Literal

from headrace.testing.synth_clip import Look, Structure, SynthClip, Timing
from headrace.testing.synth_codecs import CODECS_WITH_B_FRAMES, PIXEL_FORMATS, Codec
from headrace.testing.synth_containers import CODECS_IN, RAW_CONTAINERS, Container
from headrace.testing.synth_draw_options import draw_options

_WEIGHTS: dict[Codec, int] = {
    "h264": 40,
    "hevc": 14,
    "mpeg2video": 10,
    "mpeg1video": 4,
    "mpeg4": 6,
    "vp9": 8,
    "vp8": 5,
    "av1": 5,
}
_OTHERS: tuple[Codec, ...] = tuple(
    # Left out: one needs frames of 576 x 720, one takes seconds.
    sorted({c for codecs in CODECS_IN.values() for c in codecs} - {*_WEIGHTS, "dvvideo", "zmbv"})
)
_OTHERS_SHARE = 0.12
_SLOW: tuple[Codec, ...] = ("cinepak", "jpeg2000", "png", "apng", "svq1", "flashsv2")
_SIZES = ((96, 128), (96, 128), (64, 96), (80, 112), (128, 96), (70, 90), (144, 176))
_ODD_SIZES = ((75, 53), (97, 131))
_FIXED_SIZES: dict[Codec, tuple[int, int]] = {
    "h261": (144, 176),
    "h263": (96, 128),
    "dnxhd": (128, 256),
    "cinepak": (48, 64),
    "cfhd": (96, 128),
}
_FREE_TIMING: tuple[Codec, ...] = ("h264", "hevc", "vp8", "vp9", "av1", "mjpeg")
_TIMED: tuple[Container, ...] = ("mp4", "mov", "mkv", "webm", "ts", "m2ts")
_FRAGMENTED = (("movflags", "frag_keyframe+empty_moov+default_base_moof"),)


def draw_synth_clip(rng: Random) -> SynthClip:
    """Draw a clip; the same state of `rng` gives the same one."""
    codec = _draw_codec(rng)
    container = rng.choice([c for c, codecs in CODECS_IN.items() if codec in codecs])
    structure = _draw_structure(rng, codec, container)
    gop = rng.choice([1, 2, 5, 8, 12, 12, 15, 25, 30, 30, 60, rng.randint(3, 60)])
    b_frames = _draw_b_frames(rng, codec, container, structure)
    if structure == "b_pyramid" and b_frames < 2:
        b_frames = 2
    pixel_format = _draw_pixel_format(rng, codec, structure)
    clip = SynthClip(
        codec=codec,
        container=container,
        num_frames=rng.randint(12, 24) if codec in _SLOW else rng.randint(30, 90),
        size=_draw_size(rng, codec, pixel_format, structure),
        gop=gop,
        b_frames=b_frames,
        open_gop=b_frames > 0 and structure != "intra_refresh" and rng.random() < 0.5,
        structure=structure,
        frame_rate=Fraction(rng.choice([24, 25, 30, 30])),
        timing=_draw_timing(rng, codec, container, structure),
        look=Look(pixel_format=pixel_format, rotation=_draw_rotation(rng, container)),
        bitstream_filters=_draw_filters(rng, codec, container),
        container_options=_draw_fragments(rng, container),
    )
    return replace(clip, encoder_options=draw_options(rng, clip))


def _draw_codec(rng: Random) -> Codec:
    if rng.random() < _OTHERS_SHARE:
        return rng.choice(_OTHERS)
    return rng.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]


def _draw_structure(rng: Random, codec: Codec, container: Container) -> Structure | None:
    choices: Sequence[Structure | None] = (None,)
    match codec:
        case "h264":
            choices = (None, None, "b_pyramid", "b_pyramid", "intra_refresh", "interlaced")
        case "hevc":
            choices = (None, "b_pyramid")
        case "mpeg2video":
            choices = (None, None, "interlaced")
        case "vp8" | "vp9" if container in ("webm", "mkv"):
            choices = (None, None, "hidden_packets")
    return rng.choice(choices)


def _draw_b_frames(
    rng: Random, codec: Codec, container: Container, structure: Structure | None
) -> int:
    if codec not in CODECS_WITH_B_FRAMES or container in ("3gp", "wmv"):
        return 0
    if codec in ("h264", "hevc"):
        return rng.choice([0, 1, 2, 3, 3, 4, 8])
    return rng.choice([0, 1, 2, 2, 3])


def _draw_pixel_format(rng: Random, codec: Codec, structure: Structure | None) -> str:
    formats = PIXEL_FORMATS.get(codec, ("yuv420p",))
    if structure is not None or rng.random() < 0.7:
        return formats[0]
    return rng.choice(formats)


def _draw_size(
    rng: Random, codec: Codec, pixel_format: str, structure: Structure | None
) -> tuple[int, int]:
    if codec in _FIXED_SIZES:
        return _FIXED_SIZES[codec]
    if codec in ("vp8", "vp9") or (codec == "h264" and pixel_format in ("yuv444p", "rgb24")):
        return rng.choice([*_SIZES, *_ODD_SIZES])
    if codec in _WEIGHTS and structure != "interlaced":
        return rng.choice(_SIZES)
    return (96, 128)


def _draw_timing(
    rng: Random, codec: Codec, container: Container, structure: Structure | None
) -> Timing:
    if container in RAW_CONTAINERS or container not in _TIMED:
        return Timing()
    starts = [Fraction(0)] * 4 + [Fraction(1), Fraction(3600)]
    start = rng.choice([*starts, Fraction(7, 3)] if codec in _FREE_TIMING else starts)
    if container == "ts" and rng.random() < 0.1:
        start = Fraction(-2)
    durations: tuple[Fraction, ...] = ()
    # A hidden picture needs room before the next one, in whole milliseconds.
    is_free = codec in _FREE_TIMING and structure != "hidden_packets"
    if is_free and rng.random() < 0.25:
        ticks = [rng.choice([1500, 3000, 3003, 4500, 9000, 90_000]) for _ in range(7)]
        durations = tuple(Fraction(count, 90_000) for count in ticks)
    has_preroll = container in ("mp4", "mov") and rng.random() < 0.25
    if has_preroll:
        start = Fraction(0)
    return Timing(
        start_seconds=start,
        durations_seconds=durations,
        preroll=rng.randint(1, 9) if has_preroll else 0,
    )


def _draw_rotation(rng: Random, container: Container) -> Literal[0, 90, 180, 270]:
    if container in ("mp4", "mov") and rng.random() < 0.1:
        return rng.choice([90, 180, 270])
    return 0


def _draw_filters(rng: Random, codec: Codec, container: Container) -> tuple[str, ...]:
    if codec == "h264" and rng.random() < 0.1:
        return ("h264_metadata=aud=insert",)
    if codec in ("h264", "hevc") and container in ("mp4", "mkv", "flv") and rng.random() < 0.1:
        return ("dump_extra=freq=keyframe",)
    return ()


def _draw_fragments(rng: Random, container: Container) -> tuple[tuple[str, str], ...]:
    if container in ("mp4", "mov") and rng.random() < 0.2:
        return _FRAGMENTED
    return ()
