"""Options of encoders at random: the tools that change how pictures refer to each other."""

from random import Random

from headrace.testing.synth_clip import SynthClip

Options = tuple[tuple[str, str], ...]


def draw_options(rng: Random, clip: SynthClip) -> Options:
    """Return further options for the encoder of `clip`, none of which it refuses."""
    match clip.codec:
        case "h264":
            return _x264(rng, clip)
        case "hevc":
            return _x265(rng, clip)
        case "vp8" | "vp9":
            return _vpx(rng, clip)
        case "av1":
            return _av1(rng)
        case "mpeg1video" | "mpeg2video":
            return _mpeg(rng, clip)
        case "mpeg4":
            return rng.choice([(), (("flags", "+mv4"),), (("flags", "+qpel"),)])
        case "ffv1":
            return (("g", str(rng.choice([1, 1, 12]))),)
        case _:
            return ()


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
        # With many B-frames its decoding times then pass the presentation times.
        "temporal-layers": rng.choice([0, 0, 2]) if clip.b_frames < 4 else 0,
        # It has to look further than the B-frames reach.
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


def _av1(rng: Random) -> Options:
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


def _joined(parameters: dict[str, int | str]) -> str:
    return ":".join(f"{name}={value}" for name, value in parameters.items())
