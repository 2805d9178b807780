"""`headrace annotate`: what is where in pictures and videos, drawn and listed."""

import sys
from pathlib import Path
from typing import Any, Final

import typer

from headrace.cli.live_run import execute_live
from headrace.cli.options import configured, option, parameters, with_parameters
from headrace.cli.progress import waiting
from headrace.cli.run import conclude, execute, when
from headrace.cli.run_options import DRY_RUN, comes_by_itself
from headrace.cli.sources import check_present
from headrace.cli.stopping import ending_at_once, ending_on_sigterm
from headrace.models.results import BoxChoice
from headrace.runs.options import (
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
            "help": "Pictures (PNG, JPEG, WebP) or videos, or folders of either.",
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
    option("json", bool, False, "Print the recorded session as JSON, nothing else.", "--json"),
)


def _annotate(**typed: Any) -> None:
    options, is_quiet = _options(typed), typed["json"]
    is_live = comes_by_itself(typed["sources"])
    if not is_live:
        check_present(typed["sources"])
    with ending_at_once(), waiting("loading PyTorch", is_quiet=is_quiet):
        import headrace.runs.live.runner
        import headrace.runs.run  # noqa: F401
    with ending_on_sigterm() as ending:
        try:
            is_dry = typed["dry_run"]
            if is_live:
                session = execute_live(options, None, ending, is_dry=is_dry, is_quiet=is_quiet)
            else:
                session = execute(options, ending, is_dry=is_dry, is_quiet=is_quiet)
        except KeyboardInterrupt:
            print(when(ending, options.output.out), file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None
        if session is not None:
            conclude(session, options.output.out, ending.exit_code, is_quiet=is_quiet)


annotate = with_parameters(
    _annotate,
    _PARAMETERS,
    "Find objects in pictures or videos: boxes drawn, and listed for COCO and as Parquet.",
)


def _options(typed: dict[str, Any]) -> RunOptions:
    execution = configured(ExecutionOptions, typed)
    return RunOptions(
        input=configured(InputOptions, typed),
        compute=configured(ComputeOptions, typed, execution=execution),
        output=configured(OutputOptions, typed),
        detection=configured(DetectionOptions, typed, choice=configured(BoxChoice, typed)),
    )
