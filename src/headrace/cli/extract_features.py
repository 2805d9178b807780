"""`headrace extract features`: what a model gives for frames or clips of many videos, kept."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.extract_run import run_extraction
from headrace.cli.extract_summary import OutputNouns
from headrace.cli.sources import frame_crop, paths_of, refuse_streams, selection_of_flags

if TYPE_CHECKING:
    from headrace.extraction.features.feature_extraction import FeatureEstimate
    from headrace.extraction.features.model_spec import (
        FeatureModelSpec,
        Numerics,
        Sampling,
        WorkerResources,
    )
    from headrace.extraction.ray.settings import RaySettings


def extract_features(**typed: Any) -> None:
    """Run the command with what was typed."""
    from headrace.extraction.features.feature_extraction import FeatureExtraction
    from headrace.extraction.features.feature_options import FeatureOptions
    from headrace.video.frame_format import FrameFormat

    refuse_streams(typed["sources"], "features")
    sources = paths_of(typed["sources"], typed["rate"])
    model, sampling = _model(typed), _sampling(typed)
    numerics, effort = _numerics(typed), _effort(typed["batch_size"])
    # After all that can be refused at once: joining a cluster takes seconds.
    cluster = _cluster(typed["ray"], typed["device"], typed["workers"])
    options = FeatureOptions(
        sources=tuple(map(str, sources)),
        rate=typed["rate"],
        decode=typed["decode"],
        shape=FrameFormat(crop=frame_crop(typed["crop"])),
        model=model,
        out=typed["out"],
        sampling=sampling,
        numerics=numerics,
        effort=effort,
        workers=typed["workers"] if cluster is None else None,
        ray=cluster,
        allow_nan=typed["allow_nan"],
        cache=typed["cache"],
        on_error=typed["on_error"],
        retry=typed["retry"],
    )
    words = OutputNouns(noun="feature", sample=options.sampling.noun, none="gave no feature")
    run_extraction(FeatureExtraction, options, words, typed, forecast_words=_forecast_words)


def _model(typed: dict[str, Any]) -> "FeatureModelSpec":
    from headrace.errors import ConfigError
    from headrace.extraction.features.model_spec import OwnModel, TorchvisionModelSpec

    name, build = typed["model_name"], typed["model"]
    if (name is None) == (build is None):
        found = "got none" if name is None else "got both"
        raise ConfigError(f"say which model by one of --model-name and --model; {found}")
    if build is None:
        return TorchvisionModelSpec(
            name=name,
            weights=typed["weights"],
            layer=typed["layer"],
            prep_level=typed["prep_level"],
        )
    others = {"--layer": None, "--weights": "DEFAULT", "--prep-level": "medium"}
    for flag, default in others.items():
        if typed[flag[2:].replace("-", "_")] != default:
            raise ConfigError(f"{flag} belongs to --model-name; {build} sees to it itself")
    return OwnModel(build=build)


def _sampling(typed: dict[str, Any]) -> "Sampling":
    from headrace.errors import ConfigError
    from headrace.extraction.features.model_spec import ClipShape, Sampling
    from headrace.sampling.selection import EveryNth

    flags, hop, length = ("fps", "every", "at", "keyframes"), typed["hop"], typed["clip_len"]
    is_selected = any(typed[flag] for flag in flags)
    if length is None:
        for flag, is_given in (("--hop", hop is not None), ("--stride", typed["stride"] != 1)):
            if is_given:
                raise ConfigError(f"{flag} is of clips; give --clip-len as well")
        return Sampling(selection=_selection(typed))
    clip = ClipShape(num_frames=length, stride=typed["stride"])
    if is_selected and hop is not None:
        raise ConfigError("--hop says where clips begin, and so does a choice of frames; give one")
    selection = _selection(typed) if is_selected else EveryNth(hop or clip.span)
    return Sampling(selection=selection, clip=clip)


def _selection(typed: dict[str, Any]) -> Any:
    return selection_of_flags(
        typed["fps"], typed["every"], typed["at"], is_keyframes=typed["keyframes"]
    )


def _numerics(typed: dict[str, Any]) -> "Numerics":
    from headrace.extraction.features.model_spec import Numerics

    is_cpu = typed["device"] == "cpu"
    low = "bfloat16" if is_cpu else "float16"
    return Numerics(
        device=typed["device"],
        precision=low if typed["amp"] else "float32",  # type: ignore[arg-type]
        dtype=typed["dtype"],
    )


def _cluster(address: str | None, device: str, most: int | None) -> "RaySettings | None":
    """Return the cluster that is asked for, with what it has; it must be there."""
    from headrace.extraction.ray.open_cluster import sized
    from headrace.extraction.ray.settings import ActorResources, RaySettings

    if address is None:
        return None
    return sized(RaySettings(address=address, slot=ActorResources.of(device), most_actors=most))


def _effort(batch_size: str) -> "WorkerResources":
    from headrace.errors import ConfigError
    from headrace.extraction.features.model_spec import WorkerResources

    if batch_size == "auto":
        return WorkerResources(batch_size="auto")
    if not batch_size.isdecimal():
        raise ConfigError(f"--batch-size takes a number >= 1, or auto, got {batch_size!r}")
    return WorkerResources(batch_size=int(batch_size))


def _forecast_words(found: "FeatureEstimate", out: Path) -> str:
    from headrace.profiling.number_format import counted, megabytes, seconds

    shape = "x".join(map(str, found.shape)) or "1"
    if found.seconds is None:
        why = "nothing is left to compute" if not found.missing else "no sample could be computed"
        time = f"not estimated, {why}"
    else:
        time = (
            f"about {seconds(found.seconds)} on {counted(found.workers, 'worker')} for the "
            f"others, by what {counted(found.tried, 'sample')} took in one"
        )
    return (
        f"Dry run: {counted(found.samples, 'feature')} of {counted(found.videos, 'video')}, "
        f"{shape} {found.dtype} each, would go to {out}\n"
        f"Size: {megabytes(found.num_bytes)}, before compression\n"
        f"Chunks: {found.chunks:,}; {found.done:,} are done, {found.cached:,} are in the cache\n"
        f"Time: {time}"
    )
