"""Encoders of synthetic clips, and their options.

All use one thread and fixed frame types, so that equal clips have equal files. Codecs that PyAV
cannot encode are written by the system's `ffmpeg`.
"""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import av
from av.video.frame import VideoFrame

from headrace.testing.synth_clip import SynthClip
from headrace.testing.synth_containers import ENCODERS, muxer_of, muxer_options

_COARSE_CODECS = (
    *("h261", "h263", "h263p", "flv1", "rv10", "rv20", "wmv1", "wmv2", "msmpeg4v2", "msmpeg4v3"),
    *("asv1", "asv2", "svq1", "snow"),
)


def encoder_of(clip: SynthClip) -> tuple[str, dict[str, str]]:
    """Return the name of FFmpeg's encoder for `clip`, and its options."""
    name = ENCODERS.get(clip.codec, clip.codec)
    if clip.codec == "h264" and "rgb" in clip.look.pixel_format:
        name = "libx264rgb"
    return name, _merged(_options_of(clip), clip.encoder_options)


def _options_of(clip: SynthClip) -> dict[str, str]:
    match clip.codec:
        case "h264":
            return _x264(clip)
        case "hevc":
            return _x265(clip)
        case "vp8":
            return _vpx(clip)
        case "vp9":
            return _vp9(clip)
        case "av1":
            return {"preset": "10", "g": str(clip.gop), "svtav1-params": "lp=1"}
        case "mpeg4" | "mpeg1video" | "mpeg2video":
            return _mpeg(clip)
        case "ffv1":
            return {"g": "1", "level": "3"}
        case "dnxhd":
            return {"profile": "dnxhr_sq"}
        case "mjpeg":
            return {"qmin": "2", "qmax": "4"}
        case codec:
            # With their default quantizer, numbers are not readable.
            quality = {"qmin": "2", "qmax": "4"} if codec in _COARSE_CODECS else {}
            return quality | {"g": str(clip.gop)}


def _merged(options: dict[str, str], further: tuple[tuple[str, str], ...]) -> dict[str, str]:
    merged = dict(options)
    for name, value in further:
        if name in merged and (name.endswith("-params") or (name == "flags" and value[0] in "+-")):
            # In a list of settings the last value of a name applies.
            merged[name] += (":" if name != "flags" else "") + value
        else:
            merged[name] = value
    return merged


def _x264(clip: SynthClip) -> dict[str, str]:
    parameters: dict[str, int | str] = {
        "scenecut": 0,
        "b-adapt": 0,
        "b-pyramid": "normal" if clip.structure == "b_pyramid" else "none",
        "ref": 4,
        # With macroblock trees on AVX-512, the output of small frames differs between runs.
        "mbtree": 0,
        "open-gop": int(clip.open_gop),
        "intra-refresh": int(clip.structure == "intra_refresh"),
    }
    if clip.structure == "interlaced":
        parameters["tff"] = 1
    return {
        "preset": "veryfast",
        "crf": "16",
        "g": str(clip.gop),
        "bf": str(clip.b_frames),
        "x264-params": _joined(parameters),
    }


def _x265(clip: SynthClip) -> dict[str, str]:
    parameters: dict[str, int | str] = {
        "log-level": -1,
        "pools": "none",
        "frame-threads": 1,
        "wpp": 0,
        "scenecut": 0,
        "b-adapt": 0,
        "b-pyramid": int(clip.structure == "b_pyramid"),
        "bframes": clip.b_frames,
        "keyint": clip.gop,
        "min-keyint": clip.gop,
        "open-gop": int(clip.open_gop),
    }
    return {"preset": "ultrafast", "crf": "16", "x265-params": _joined(parameters)}


def _vpx(clip: SynthClip) -> dict[str, str]:
    # VP8 adapts a positive speed to the load of the machine; a negative one is fixed.
    quality = {"deadline": "realtime", "cpu-used": "-4", "b": "800k"}
    return quality | {"g": str(clip.gop), "lag-in-frames": "0"}


def _vp9(clip: SynthClip) -> dict[str, str]:
    # In one pass, only realtime speeds create alternate references, and only with a bit rate.
    return _vpx(clip) | {"cpu-used": "6", "lag-in-frames": "16", "auto-alt-ref": "1"}


def _mpeg(clip: SynthClip) -> dict[str, str]:
    options = {"g": str(clip.gop), "bf": str(clip.b_frames), "qmin": "2", "qmax": "4"}
    flags = "+ildct+ilme" if clip.structure == "interlaced" else ""
    if not clip.open_gop:
        # The encoder refuses closed GOPs unless scene cuts are disabled by a high threshold.
        flags += "+cgop"
        options["sc_threshold"] = "1000000000"
    return options | ({"flags": flags} if flags else {})


def _joined(parameters: dict[str, int | str]) -> str:
    return ":".join(f"{name}={value}" for name, value in parameters.items())


def can_encode(clip: SynthClip) -> bool:
    """Return whether PyAV, or the system's `ffmpeg`, can encode the clip."""
    if not is_outside(clip):
        return True
    program = shutil.which("ffmpeg")
    if program is None:
        return False
    encoders = subprocess.run(
        [program, "-hide_banner", "-encoders"], capture_output=True, text=True
    )
    return f" {encoder_of(clip)[0]} " in encoders.stdout


def is_outside(clip: SynthClip) -> bool:
    """Return whether PyAV has no encoder for a clip."""
    return encoder_of(clip)[0] not in av.codecs_available


def write_outside(path: Path, clip: SynthClip, frames: Iterable[VideoFrame]) -> Path:
    """Write a clip of evenly spaced frames and return its path.

    Raises:
        ValueError: `ffmpeg` is not installed, or lacks the encoder or muxer.
    """
    program = shutil.which("ffmpeg")
    if program is None:
        raise ValueError(f"{clip.codec} needs the program ffmpeg, which is not installed")
    encoder, options = encoder_of(clip)
    height, width = clip.size
    command = [program, "-v", "error", "-nostdin", "-y", "-f", "rawvideo"]
    command += ["-pix_fmt", clip.look.pixel_format, "-s", f"{width}x{height}"]
    command += ["-r", str(clip.frame_rate), "-i", "pipe:0", "-threads", "1", "-c:v", encoder]
    command += ["-flags:v", "+bitexact"]
    for name, value in {**options, **muxer_options(clip.container)}.items():
        command += [f"-{name}", value]
    command += ["-f", muxer_of(clip.container), f"file:{path}"]
    pixels = b"".join(frame.to_ndarray().tobytes() for frame in frames)
    completed = subprocess.run(command, input=pixels, capture_output=True)
    if completed.returncode:
        raise ValueError(f"ffmpeg cannot write {clip.codec}: {completed.stderr.decode()[-300:]}")
    return path
