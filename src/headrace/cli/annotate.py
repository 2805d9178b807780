"""`headrace annotate`: what is where in pictures and videos, drawn and listed."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.cli.decode_option import Decode
from headrace.cli.early import check_out, check_present, check_weights, checking
from headrace.cli.options import flags, with_parameters
from headrace.cli.progress import waiting
from headrace.cli.run import conclude, execute, when
from headrace.cli.run_values import named
from headrace.cli.stopping import ending_at_once, ending_on_sigterm

if TYPE_CHECKING:
    from headrace.runs.options import RunOptions


@dataclass(frozen=True, kw_only=True)
class AnnotateFlags:
    """What is looked at, by which model, and what is kept of what it finds."""

    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE", help="Pictures (PNG, JPEG, WebP) or videos, or folders of either."
        ),
    ]
    model_name: Annotated[
        str, typer.Option(help="A detector of torchvision: headrace models lists them.")
    ] = "fasterrcnn_resnet50_fpn_v2"
    weights: Annotated[
        str,
        typer.Option(
            help="DEFAULT (torchvision's own), none (random), or a checkpoint file.",
            callback=checking(check_weights),
        ),
    ] = "DEFAULT"
    threshold: Annotated[
        float, typer.Option(metavar="SCORE", help="Leave out boxes that are less sure: 0 to 1.")
    ] = 0.7
    max_boxes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the surest N of a picture.")
    ] = None
    classes: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Keep these classes only, as person,dog."),
    ] = None
    batch_size: Annotated[
        int, typer.Option(min=1, metavar="N", help="Frames or pictures of one size in a step.")
    ] = 4
    stride: Annotated[int, typer.Option(min=1, help="Every n-th frame or picture.")] = 1
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many steps.", metavar="N")
    ] = None
    on_error: Annotated[
        Literal["raise", "skip", "conceal"],
        typer.Option(
            help="Damaged frames and pictures end it, are left out, or (frames) come as FFmpeg "
            "shows them."
        ),
    ] = "raise"
    decode: Decode = "cpu"
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where the model runs.")] = "cpu"
    use_amp: Annotated[
        bool,
        typer.Option("--use-amp", help="Compute in 16 bits where the model can: less memory."),
    ] = False
    threads: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Threads of one operation on the CPU.")
    ] = None
    out: Annotated[
        Path, typer.Option(help="Folder of the results.", callback=checking(check_out))
    ] = Path("headrace_annotate")
    video: Annotated[
        bool,
        typer.Option("--video/--no-video", help="Write an annotated video, or pictures, or not."),
    ] = True
    parquet: Annotated[
        bool,
        typer.Option(
            "--parquet/--no-parquet", help="Write boxes.parquet beside coco.json, or not."
        ),
    ] = True
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, run nothing.")] = (
        False
    )
    json: Annotated[
        bool, typer.Option("--json", help="Print the recorded session as JSON, nothing else.")
    ] = False


def _annotate(**typed: Any) -> None:
    options, is_quiet = _options(typed), typed["json"]
    check_present(typed["sources"])
    with ending_at_once(), waiting("loading PyTorch", is_quiet=is_quiet):
        import headrace.runs.run  # noqa: F401
    with ending_on_sigterm() as ending:
        try:
            session = execute(options, ending, is_dry=typed["dry_run"], is_quiet=is_quiet)
        except KeyboardInterrupt:
            print(when(ending, options.output.out), file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None
        if session is not None:
            conclude(session, options.output.out, ending.exit_code, is_quiet=is_quiet)


annotate = with_parameters(
    _annotate,
    flags(AnnotateFlags),
    "Find objects in pictures or videos: boxes drawn, and listed for COCO and as Parquet.",
)


def _options(typed: dict[str, Any]) -> "RunOptions":
    from headrace.models.results import BoxChoice
    from headrace.runs.options import (
        ComputeOptions,
        DetectionOptions,
        ExecutionOptions,
        InputOptions,
        OutputOptions,
        RunOptions,
    )

    return RunOptions(
        input=named(InputOptions, typed, sources=tuple(typed["sources"])),
        compute=named(ComputeOptions, typed, execution=ExecutionOptions(amp=typed["use_amp"])),
        output=named(OutputOptions, typed),
        detection=DetectionOptions(
            choice=named(BoxChoice, typed, classes=_listed(typed["classes"])),
            parquet=typed["parquet"],
        ),
    )


def _listed(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise typer.BadParameter(
            f"give names of classes with commas between them, got {text!r}",
            param_hint="'--classes'",
        )
    return tuple(dict.fromkeys(names))
