"""`headrace annotate`: object detection in images, videos and streams."""

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
            "help": "Images (PNG, JPEG, WebP) or videos, folders of them, or the live sources of "
            "headrace run.",
            "is_needed": True,
        },
    ),
    *parameters(
        ComputeOptions,
        only="model_name weights",
        model_name={
            "help": "torchvision detection model; headrace models lists them.",
            "default": "fasterrcnn_resnet50_fpn_v2",
        },
    ),
    *parameters(BoxChoice),
    *parameters(ComputeOptions, only="batch_size", batch_size={"default": 4}),
    *parameters(
        InputOptions,
        only="stride max_steps on_error decode",
        stride={"help": "Process every n-th frame or image; 1 means all."},
        on_error={
            "help": "At damaged frames or images: stop, leave them out, or (frames only) keep "
            "FFmpeg's concealment."
        },
    ),
    *parameters(ComputeOptions, only="device"),
    *parameters(ExecutionOptions, only="amp"),
    *parameters(ComputeOptions, only="threads"),
    *parameters(
        OutputOptions,
        only="out video",
        out={"default": Path("headrace_annotate")},
        video={"help": "Write an annotated video or annotated images, or not."},
    ),
    *parameters(DetectionOptions),
    DRY_RUN,
    SESSION_JSON,
)


def _annotate(**typed: Any) -> None:
    is_live = _is_live(typed["sources"])
    execution = configured(ExecutionOptions, typed)
    choice = configured(BoxChoice, typed)
    options = RunOptions(
        input=configured(InputOptions, typed),
        compute=configured(ComputeOptions, typed, execution=execution),
        output=configured(OutputOptions, typed),
        # coco.json and the tables are written at the end, and a live run may never end.
        detection=configured(DetectionOptions, typed, choice=choice, lines=is_live),
    )
    if not is_live:
        check_present(typed["sources"])
    run_and_conclude(options, lambda options: None if is_live else options, typed)


annotate = with_parameters(
    _annotate,
    _PARAMETERS,
    "Detect objects in images or videos; draw the boxes, and write them as COCO and Parquet.",
)


def _is_live(sources: Sequence[str]) -> bool:
    """Whether a source is a camera, an address or a list of addresses."""
    return any(
        (is_live_address(source) and not (source.isdecimal() and Path(source).exists()))
        or source.endswith(".streams")
        for source in sources
    )
