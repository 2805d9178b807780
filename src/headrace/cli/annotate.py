"""`headrace annotate`: boxes of objects in images, videos and streams, drawn and listed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from headrace.cli.config_flags import DRY_RUN, SESSION_JSON, configured, parameters, with_parameters
from headrace.cli.run import run_and_conclude
from headrace.cli.sources import check_present
from headrace.live.address import is_live_address
from headrace.models.results import BoxChoice
from headrace.runs.run_options import (
    ComputeOptions,
    DetectionOptions,
    ExecutionOptions,
    InputOptions,
    OutputOptions,
    RunOptions,
)

_PARAMETERS: Final = (
    *parameters(
        InputOptions,
        only="sources",
        sources={
            "help": "Pictures (PNG, JPEG, WebP) or videos, or folders of either; or cameras and "
            "streams, as of headrace run.",
            "is_needed": True,
        },
    ),
    *parameters(
        ComputeOptions,
        only="model_name weights",
        model_name={
            "help": "A detector of torchvision: headrace models lists them.",
            "default": "fasterrcnn_resnet50_fpn_v2",
        },
    ),
    *parameters(BoxChoice),
    *parameters(ComputeOptions, only="batch_size", batch_size={"default": 4}),
    *parameters(
        InputOptions,
        only="stride max_steps on_error decode",
        stride={"help": "Every n-th frame or picture."},
        on_error={
            "help": "Damaged frames and pictures end it, are left out, or (frames) come as FFmpeg "
            "shows them."
        },
    ),
    *parameters(ComputeOptions, only="device"),
    *parameters(ExecutionOptions, only="amp"),
    *parameters(ComputeOptions, only="threads"),
    *parameters(
        OutputOptions,
        only="out video",
        out={"default": Path("headrace_annotate")},
        video={"help": "Write an annotated video, or pictures, or not."},
    ),
    *parameters(DetectionOptions),
    DRY_RUN,
    SESSION_JSON,
)


def _annotate(**typed: Any) -> None:
    is_live = _is_live(typed["sources"])
    options = _options(typed, is_live=is_live)
    if not is_live:
        check_present(typed["sources"])
    run_and_conclude(options, lambda options: None if is_live else options, typed)


annotate = with_parameters(
    _annotate,
    _PARAMETERS,
    "Find objects in pictures or videos: boxes drawn, and listed for COCO and as Parquet.",
)


def _is_live(sources: Sequence[str]) -> bool:
    """Return whether a source is a camera, an address or a list of addresses."""
    return any(
        (is_live_address(source) and not (source.isdecimal() and Path(source).exists()))
        or source.endswith(".streams")
        for source in sources
    )


def _options(typed: dict[str, Any], *, is_live: bool) -> RunOptions:
    execution = configured(ExecutionOptions, typed)
    choice = configured(BoxChoice, typed)
    return RunOptions(
        input=configured(InputOptions, typed),
        compute=configured(ComputeOptions, typed, execution=execution),
        output=configured(OutputOptions, typed),
        # coco.json and tables appear at the end of a run, and a live run may not end.
        detection=configured(DetectionOptions, typed, choice=choice, lines=is_live),
    )
