"""Which encoder writes a clip, and with which of its settings.

One thread and fixed picture types everywhere: the same clip is the same file every time.
"""

from headrace.testing.synth_clip import SynthClip


def encoder_of(clip: SynthClip) -> tuple[str, dict[str, str]]:
    """Return the name of FFmpeg's encoder for `clip`, and its options."""
    match clip.codec:
        case "h264":
            return "libx264", _x264(clip)
        case "hevc":
            return "libx265", _x265(clip)
        case "vp8":
            return "libvpx", _vpx(clip)
        case "vp9":
            return "libvpx-vp9", _vp9(clip)
        case "av1":
            return "libsvtav1", {"preset": "10", "g": str(clip.gop), "svtav1-params": "lp=1"}
        case "mpeg4":
            return "mpeg4", _mpeg4(clip)
        case "mjpeg":
            return "mjpeg", {"qmin": "2", "qmax": "4"}
        case "ffv1":
            return "ffv1", {"g": "1", "level": "3"}


def _x264(clip: SynthClip) -> dict[str, str]:
    parameters: dict[str, int | str] = {
        "scenecut": 0,
        "b-adapt": 0,
        "b-pyramid": "normal" if clip.structure == "b_pyramid" else "none",
        "ref": 4,
        # With it, and AVX-512, small pictures were seen to come out different from run to run.
        "mbtree": 0,
        "open-gop": int(clip.open_gop),
        "intra-refresh": int(clip.structure == "intra_refresh"),
    }
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
    quality = {"deadline": "realtime", "cpu-used": "6", "b": "800k"}
    return quality | {"g": str(clip.gop), "lag-in-frames": "0"}


def _vp9(clip: SynthClip) -> dict[str, str]:
    # In one pass only the realtime speeds make alternate references, and only at a bit rate.
    return _vpx(clip) | {"lag-in-frames": "16", "auto-alt-ref": "1"}


def _mpeg4(clip: SynthClip) -> dict[str, str]:
    structure = {"g": str(clip.gop), "bf": str(clip.b_frames), "qmin": "2", "qmax": "4"}
    if clip.open_gop:
        return structure
    # The encoder refuses closed GOPs unless scene cuts are out of reach.
    return structure | {"flags": "+cgop", "sc_threshold": "1000000000"}


def _joined(parameters: dict[str, int | str]) -> str:
    return ":".join(f"{name}={value}" for name, value in parameters.items())
