"""`headrace extract`: frames as image files, features of models, and tools for features."""

from typing import Any, Final

import typer

from headrace.cli.app import CommandList
from headrace.cli.config_flags import JSON, configured, flag_of, option, parameters, with_parameters
from headrace.cli.extract_read import aggregate, export
from headrace.cli.extract_run import (
    CROP,
    ESTIMATE,
    SELECTION,
    OutputNouns,
    crop_of,
    run_extraction,
    selection_of,
    sources_of_files,
)
from headrace.cli.sources import frame_size
from headrace.errors import ConfigError
from headrace.extraction.features.feature_options import FeatureOptions, sized
from headrace.extraction.features.model_spec import (
    ClipShape,
    FeatureModelSpec,
    Numerics,
    OwnModel,
    SampleSpec,
    TorchvisionModelSpec,
    WorkerResources,
)
from headrace.extraction.frame_extraction import FrameExtractionOptions
from headrace.extraction.image_encoder import ImageEncoder
from headrace.extraction.ray.settings import ActorResources, RaySettings
from headrace.models.compute import Precision
from headrace.sampling.selection import EveryNth

extract = typer.Typer(
    cls=CommandList,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Extract frames or features from many videos.",
)


_OF_TORCHVISION: Final = parameters(TorchvisionModelSpec, only="layer weights prep_level")
_FEATURES: Final = (
    *parameters(FeatureOptions, only="sources out rate"),
    *SELECTION,
    option(
        "clip_len",
        int | None,
        None,
        "Frames per clip, for a video model: one feature per clip.",
        min=1,
        metavar="N",
    ),
    *parameters(ClipShape),
    option(
        "hop",
        int | None,
        None,
        "Frames from one clip start to the next; by default the span of a clip.",
        min=1,
        metavar="N",
    ),
    option("model_name", str | None, None, "torchvision model; headrace models lists them."),
    option(
        "model",
        str | None,
        None,
        "Function that returns your own model.",
        metavar="MODULE:FUNCTION",
    ),
    *_OF_TORCHVISION,
    *parameters(Numerics),
    option("amp", bool, False, "Compute in 16-bit autocast, with less memory.", "--amp"),
    option("batch_size", str, "16", "Samples per batch; auto measures the best.", metavar="N|auto"),
    *parameters(FeatureOptions, only="allow_nan cache decode spill spill_budget"),
    CROP,
    option(
        "ray",
        str | None,
        None,
        "Run on a Ray cluster whose nodes share the videos and the output folder.",
        metavar="auto|HOST:PORT",
    ),
    *parameters(
        FeatureOptions,
        only="workers on_error retry",
        workers={
            "help": "Worker processes; default: one per core. Features differ by rounding at most."
        },
    ),
    ESTIMATE,
    JSON,
)


def _extract_features(**typed: Any) -> None:
    from headrace.extraction.features.feature_extraction import FeatureExtraction
    from headrace.video.frame_format import FrameFormat

    low: Precision = "bfloat16" if typed["device"] == "cpu" else "float16"
    precision: Precision = low if typed["amp"] else "float32"
    options = configured(
        FeatureOptions,
        typed,
        sources=sources_of_files(typed, "features"),
        model=_model_of(typed),
        sampling=_sampling_of(typed),
        numerics=configured(Numerics, typed, precision=precision),
        effort=_resources_of(typed["batch_size"]),
        shape=FrameFormat(crop=crop_of(typed)),
        workers=typed["workers"] if typed["ray"] is None else None,
        ray=_cluster_of(typed),  # last, since joining a cluster takes seconds
    )
    nouns = OutputNouns(
        noun="feature",
        sample=options.sampling.noun,
        none="without a feature",
        unfinished=", those of finished chunks",
    )
    run_extraction(FeatureExtraction, options, nouns, typed)


def _model_of(typed: dict[str, Any]) -> FeatureModelSpec:
    name, build = typed["model_name"], typed["model"]
    if (name is None) == (build is None):
        got = "none" if name is None else "both"
        raise ConfigError(f"give one of --model-name and --model; got {got}")
    if build is None:
        return configured(TorchvisionModelSpec, typed, name=name)
    for parameter in _OF_TORCHVISION:
        if typed[parameter.name] != parameter.default:
            flag = flag_of(parameter, typed[parameter.name])
            raise ConfigError(f"{flag} needs --model-name, got --model {build}; leave {flag} out")
    return OwnModel(build=build)


def _sampling_of(typed: dict[str, Any]) -> SampleSpec:
    hop, length, stride = typed["hop"], typed["clip_len"], typed["stride"]
    if length is None:
        for flag, is_given in (("--hop", hop is not None), ("--stride", stride != 1)):
            if is_given:
                raise ConfigError(f"{flag} is for clips; give --clip-len as well")
        return SampleSpec(selection=selection_of(typed))
    clip = ClipShape(num_frames=length, stride=stride)
    if not any(typed[parameter.name] for parameter in SELECTION):
        return SampleSpec(selection=EveryNth(hop or clip.span), clip=clip)
    if hop is not None:
        raise ConfigError(
            "--hop and a frame selection both define the clip starts; give one of them"
        )
    return SampleSpec(selection=selection_of(typed), clip=clip)


def _cluster_of(typed: dict[str, Any]) -> RaySettings | None:
    """Return the cluster named by `--ray` with its resources; None without `--ray`."""
    if typed["ray"] is None:
        return None
    slot = ActorResources.of(typed["device"])
    return sized(RaySettings(address=typed["ray"], slot=slot, most_actors=typed["workers"]))


def _resources_of(batch_size: str) -> WorkerResources:
    if batch_size == "auto":
        return WorkerResources(batch_size="auto")
    if not batch_size.isdecimal():
        raise ConfigError(f"--batch-size must be a number >= 1, or auto, got {batch_size!r}")
    return WorkerResources(batch_size=int(batch_size))


_FRAMES: Final = (
    *parameters(FrameExtractionOptions, only="sources out rate"),
    *SELECTION,
    *parameters(ImageEncoder),
    option(
        "size",
        str | None,
        None,
        "Height and width of the images, such as 256x456; frames are stretched.",
        metavar="HxW",
    ),
    CROP,
    *parameters(FrameExtractionOptions, only="decode spill spill_budget workers on_error retry"),
    ESTIMATE,
    JSON,
)


def _extract_frames(**typed: Any) -> None:
    from headrace.extraction.frame_extraction import FrameExtraction
    from headrace.video.frame_format import FrameFormat

    options = configured(
        FrameExtractionOptions,
        typed,
        sources=sources_of_files(typed, "frames"),
        selection=selection_of(typed),
        pictures=configured(ImageEncoder, typed),
        shape=FrameFormat(size=frame_size(typed["size"]), crop=crop_of(typed)),
    )
    nouns = OutputNouns(noun="image", sample="frame", none="could not be opened")
    run_extraction(FrameExtraction, options, nouns, typed)


extract.command("frames")(
    with_parameters(
        _extract_frames,
        _FRAMES,
        "Extract frames as image files, with a table of them. Resumable: run it again.",
    )
)
extract.command("aggregate")(aggregate)
extract.command("export")(export)
extract.command("features")(
    with_parameters(
        _extract_features,
        _FEATURES,
        "Extract features of frames or clips with a model, as tables. Resumable: run it again.",
    )
)
