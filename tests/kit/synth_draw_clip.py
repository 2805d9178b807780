"""Clips at random: codec, container, options, structure, timing, size and look.

FFmpeg can encode and mux all of them.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Literal

from headrace.testing.synth_clip import Look, Structure, SynthClip, Timing
from headrace.testing.synth_containers import (
    CODECS_IN,
    CODECS_WITH_B_FRAMES,
    PIXEL_FORMATS,
    RAW_CONTAINERS,
    Codec,
    Container,
)

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
    # Without dvvideo, which needs frames of 576 x 720.
    sorted({c for codecs in CODECS_IN.values() for c in codecs} - {*_WEIGHTS, "dvvideo"})
)
_OTHERS_SHARE = 0.3
_SLOW: tuple[Codec, ...] = ("cinepak", "jpeg2000", "png", "apng", "svq1", "flashsv2", "zmbv")
_SIZES = ((96, 128), (96, 128), (64, 96), (80, 112), (128, 96), (70, 90), (144, 176))
_ODD_SIZES = ((75, 53), (97, 131))
FIXED_SIZES: dict[Codec, tuple[int, int]] = {
    "h261": (144, 176),
    "h263": (96, 128),
    "dnxhd": (128, 256),
    "cinepak": (48, 64),
    "cfhd": (96, 128),
}
_FREE_TIMING: tuple[Codec, ...] = ("h264", "hevc", "vp8", "vp9", "av1", "mjpeg")
_TIMED: tuple[Container, ...] = ("mp4", "mov", "mkv", "webm", "ts", "m2ts")
_FRAGMENTED = (("movflags", "frag_keyframe+empty_moov+default_base_moof"),)


_STRUCTURES: dict[Codec, tuple[Structure | None, ...]] = {
    "h264": (None, None, "b_pyramid", "b_pyramid", "intra_refresh", "interlaced"),
    "hevc": (None, "b_pyramid"),
    "mpeg2video": (None, None, "interlaced"),
}
_TURNS: tuple[Literal[90, 180, 270], ...] = (90, 180, 270)


def draw_synth_clip(rng: Random) -> SynthClip:
    """Draw a clip; the same state of `rng` gives the same one."""
    if rng.random() < _OTHERS_SHARE:
        codec = rng.choice(_OTHERS)
    else:
        codec = rng.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]
    container = rng.choice([c for c, codecs in CODECS_IN.items() if codec in codecs])
    is_mp4 = container in ("mp4", "mov")
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
        frame_rate=Fraction(30 if codec == "roq" else rng.choice([24, 25, 30, 30])),
        timing=_draw_timing(rng, codec, container, structure),
        look=Look(
            pixel_format=pixel_format,
            rotation=rng.choice(_TURNS) if is_mp4 and rng.random() < 0.1 else 0,
            palette_turns=pixel_format == "pal8" and container == "avi" and rng.random() < 0.5,
        ),
        bitstream_filters=_draw_filters(rng, codec, container),
        container_options=_FRAGMENTED if is_mp4 and rng.random() < 0.2 else (),
    )
    return replace(clip, encoder_options=draw_options(rng, clip))


def _draw_structure(rng: Random, codec: Codec, container: Container) -> Structure | None:
    has_hidden = codec in ("vp8", "vp9") and container in ("webm", "mkv")
    hidden: tuple[Structure | None, ...] = (None, None, "hidden_packets")
    return rng.choice(hidden if has_hidden else _STRUCTURES.get(codec, (None,)))


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
    if codec in FIXED_SIZES:
        return FIXED_SIZES[codec]
    if codec in ("vp8", "vp9") or (codec == "h264" and pixel_format in ("yuv444p", "rgb24")):
        return rng.choice([*_SIZES, *_ODD_SIZES])
    if codec in _WEIGHTS and structure != "interlaced":
        return rng.choice(_SIZES)
    return (96, 128)


def _draw_timing(
    rng: Random, codec: Codec, container: Container, structure: Structure | None
) -> Timing:
    if container in RAW_CONTAINERS or container not in _TIMED or codec == "theora":
        return Timing()
    starts = [Fraction(0)] * 4 + [Fraction(1), Fraction(3600)]
    start = rng.choice([*starts, Fraction(7, 3)] if codec in _FREE_TIMING else starts)
    if container == "ts" and rng.random() < 0.1:
        start = Fraction(-2)
    durations: tuple[Fraction, ...] = ()
    # A hidden picture needs a whole millisecond before the next one.
    is_free = codec in _FREE_TIMING and structure != "hidden_packets"
    if is_free and rng.random() < 0.25:
        ticks = [rng.choice([1500, 3000, 3003, 4500, 9000, 90_000]) for _ in range(7)]
        durations = tuple(Fraction(count, 90_000) for count in ticks)
    has_preroll = container in ("mp4", "mov") and rng.random() < 0.25
    if has_preroll:
        start = Fraction(0)
    preroll = rng.randint(1, 9) if has_preroll else 0
    return Timing(start_seconds=start, durations_seconds=durations, preroll=preroll)


def _draw_filters(rng: Random, codec: Codec, container: Container) -> tuple[str, ...]:
    if codec == "h264" and rng.random() < 0.1:
        return ("h264_metadata=aud=insert",)
    if codec in ("h264", "hevc") and container in ("mp4", "mkv", "flv") and rng.random() < 0.1:
        return ("dump_extra=freq=keyframe",)
    return ()


Options = tuple[tuple[str, str], ...]


def draw_options(rng: Random, clip: SynthClip) -> Options:
    """Return further options that the encoder of `clip` accepts."""
    return _OPTIONS[clip.codec](rng, clip) if clip.codec in _OPTIONS else ()


def _x264(rng: Random, clip: SynthClip) -> Options:
    preset = rng.choice(["ultrafast", "superfast", "veryfast", "veryfast", "faster", "medium"])
    parameters: dict[str, int | str] = {
        "ref": rng.randint(1, 8),
        "b-adapt": rng.choice([0, 0, 1, 2]),
        "scenecut": rng.choice([0, 40]),
        "weightp": rng.randint(0, 2),
        "cabac": rng.choice([0, 1, 1]),
        "slices": rng.choice([1, 1, 1, 3]),
        "rc-lookahead": rng.choice([0, 5, 20]),
        "aud": rng.choice([0, 0, 1]),
    }
    if rng.random() < 0.3:
        parameters["repeat-headers"] = 1
    if clip.b_frames:
        parameters["direct"] = rng.choice(["none", "spatial", "temporal", "auto"])
    if clip.structure == "b_pyramid":
        parameters["b-pyramid"] = rng.choice(["normal", "normal", "strict"])
    if clip.gop > 4:
        parameters["min-keyint"] = rng.choice([1, clip.gop // 2])
    if clip.look.pixel_format == "yuv420p":
        parameters["constrained-intra"] = rng.choice([0, 0, 0, 1])
    if rng.random() < 0.05:
        parameters["qp"] = 0
    return (("preset", preset), ("x264-params", _joined(parameters)))


def _x265(rng: Random, clip: SynthClip) -> Options:
    parameters: dict[str, int | str] = {
        "ref": rng.randint(1, 4),
        "b-adapt": rng.choice([0, 0, 2]),
        "scenecut": rng.choice([0, 40]),
        "weightp": rng.choice([0, 1]),
        "aud": rng.choice([0, 0, 1]),
        # With many B-frames, x265 would set decoding times after presentation times.
        "temporal-layers": rng.choice([0, 0, 2]) if clip.b_frames < 4 else 0,
        # Must be more than the B-frames.
        "rc-lookahead": rng.choice([10, 20]),
    }
    if rng.random() < 0.3:
        parameters["repeat-headers"] = 1
    preset = rng.choice(["ultrafast", "ultrafast", "superfast"])
    return (("preset", preset), ("x265-params", _joined(parameters)))


def _vpx(rng: Random, clip: SynthClip) -> Options:
    if clip.structure == "hidden_packets":
        return ()
    options = [("error-resilient", str(rng.choice([0, 0, 1])))]
    if rng.random() < 0.5:
        options += [("lag-in-frames", "16"), ("auto-alt-ref", "1")]
    elif clip.codec == "vp9":
        options += [("lag-in-frames", "0"), ("auto-alt-ref", "0")]
    return tuple(options)


def _av1(rng: Random, _: SynthClip) -> Options:
    parameters: dict[str, int | str] = {
        "irefresh-type": rng.choice([1, 2, 2]),
        "pred-struct": rng.choice([1, 2, 2]),
    }
    if parameters["pred-struct"] == 2:
        parameters["hierarchical-levels"] = rng.choice([2, 3, 4])
    return (("crf", "14"), ("svtav1-params", _joined(parameters)))


def _mpeg(rng: Random, clip: SynthClip) -> Options:
    options = [("flags", rng.choice(["+loop", "+bitexact"]))]
    if clip.open_gop:
        options.append(("sc_threshold", rng.choice(["0", "40"])))
    if clip.b_frames and clip.open_gop:
        options.append(("b_strategy", rng.choice(["0", "1"])))
    if clip.codec == "mpeg2video":
        options.append(("intra_vlc", str(rng.choice([0, 1]))))
        options.append(("non_linear_quant", str(rng.choice([0, 1]))))
    return tuple(options)


_OPTIONS: dict[Codec, Callable[[Random, SynthClip], Options]] = {
    "h264": _x264,
    "hevc": _x265,
    "vp8": _vpx,
    "vp9": _vpx,
    "av1": _av1,
    "mpeg1video": _mpeg,
    "mpeg2video": _mpeg,
    "mpeg4": lambda rng, _: rng.choice([(), (("flags", "+mv4"),), (("flags", "+qpel"),)]),
    "ffv1": lambda rng, _: (("g", str(rng.choice([1, 1, 12]))),),
}


def _joined(parameters: dict[str, int | str]) -> str:
    return ":".join(f"{name}={value}" for name, value in parameters.items())
