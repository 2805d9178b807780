"""`headrace run --mode retrain`: its options, its progress, its end."""

import inspect
import sys
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from headrace.cli.early import check_labels, check_videos, checking
from headrace.cli.frame_size import frame_size
from headrace.cli.keeping import keep
from headrace.cli.launched import is_launched, run_as_launched
from headrace.cli.options import keyword, with_parameters
from headrace.cli.progress import progress_line, waiting
from headrace.cli.stopping import NOTHING_RECORDED, ending_on_sigterm
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.profiling.session import Session
    from headrace.profiling.steps import Step
    from headrace.runs.retrain.options import RetrainOptions
    from headrace.runs.retrain.runner import RetrainRunner

_MODE: Final = keyword(
    "mode",
    Annotated[
        Literal["inference", "retrain"],
        typer.Option(help="Run the model, or train a new head for it on labelled videos."),
    ],
    "inference",
)
_OWN: Final = (
    keyword(
        "labels",
        Annotated[
            Path | None,
            typer.Option(
                help="Retrain: CSV of path,label; without it labels are dummies.",
                callback=checking(check_labels),
            ),
        ],
        None,
    ),
    keyword(
        "epochs",
        Annotated[int, typer.Option(min=1, help="Retrain: how often each frame comes.")],
        1,
    ),
    keyword(
        "learning_rate", Annotated[float, typer.Option(help="Retrain: step size of Adam.")], 1e-3
    ),
    keyword(
        "train_from",
        Annotated[
            str | None,
            typer.Option(
                metavar="LAYER", help="Retrain: train all from this layer on, not the head alone."
            ),
        ],
        None,
    ),
    keyword(
        "checkpoint_gradients",
        Annotated[
            bool,
            typer.Option(
                "--checkpoint-gradients",
                help="Retrain: trained layers recompute what they would keep; less memory.",
            ),
        ],
        False,
    ),
    keyword(
        "held_out",
        Annotated[
            float,
            typer.Option(
                metavar="SHARE", help="Retrain: videos of each class kept for the accuracy."
            ),
        ],
        0.2,
    ),
    keyword(
        "size",
        Annotated[
            str | None,
            typer.Option(metavar="HxW", help="Retrain: decode to this size, such as 256x456."),
        ],
        None,
    ),
    keyword(
        "seed",
        Annotated[int, typer.Option(min=0, help="Retrain: another one trains another way.")],
        0,
    ),
)
_SHARED: Final = frozenset(
    [
        *("sources", "model_name", "weights", "batch_size", "prep_level", "device", "threads"),
        *("input_path", "infer_on_gpu", "core_bind", "enable_compile", "use_amp"),
        *("max_steps", "stride", "on_error", "out", "dry_run", "json"),
    ]
)
"""Options of a run that hold for a training too."""


def with_mode(run: Callable[..., None]) -> Callable[..., None]:
    """Return the command `run` with `--mode` and the options of a training.

    What is of the other mode is refused, as it would have no effect.
    """
    shared = list(inspect.signature(run).parameters.values())
    defaults = {each.name: each.default for each in (*shared, *_OWN)}
    own = {each.name for each in _OWN}

    def command(mode: str, **typed: Any) -> None:
        of_other = (own if mode == "inference" else defaults.keys() - own - _SHARED) & typed.keys()
        for name in (each for each in defaults if each in of_other):
            if typed[name] != defaults[name]:
                other = "retrain" if mode == "inference" else "inference"
                flag = "" if typed[name] else "no-"
                raise ConfigError(
                    f"--{flag}{name.replace('_', '-')} is for --mode {other}; leave it out of "
                    f"--mode {mode}"
                )
        if mode == "inference":
            run(**{name: value for name, value in typed.items() if name not in own})
        else:
            _retrain(**{name: typed[name] for name in typed if name in own | _SHARED})

    options = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*shared, _MODE, *_OWN)]
    return with_parameters(command, options, inspect.getdoc(run) or "")


def _retrain(*, dry_run: bool, json: bool, **typed: Any) -> None:
    options = _options(**typed)
    with ending_on_sigterm() as ending:
        try:
            session = _execute(options, is_dry=dry_run, is_quiet=json)
        except KeyboardInterrupt:
            print(NOTHING_RECORDED, file=sys.stderr)
            raise typer.Exit(ending.exit_code) from None
        if session is not None:
            _conclude(session, options, ending.exit_code, is_quiet=json)


def _options(**typed: Any) -> "RetrainOptions":
    from headrace.cli.run_values import named, run_options
    from headrace.runs.retrain.options import LabelledInput, RetrainOptions, TrainOptions
    from headrace.video.manifest import find_videos

    plain = run_options(typed)
    if plain.compute.execution.fit_batch:
        raise ConfigError("--batch-size auto is for --mode inference; a training takes a number")
    options = RetrainOptions(
        input=named(
            LabelledInput, typed, sources=plain.input.sources, size=frame_size(typed["size"])
        ),
        training=named(TrainOptions, typed),
        compute=plain.compute,
        out=typed["out"],
    )
    check_videos(find_videos(options.input.sources))
    return options


def _execute(options: "RetrainOptions", *, is_dry: bool, is_quiet: bool) -> "Session | None":
    from headrace.profiling.machine import describe_machine, process_seconds, versions
    from headrace.report.text import render_setup

    with waiting("loading PyTorch", is_quiet=is_quiet):
        from headrace.runs.retrain.runner import RetrainRunner

    command = ("headrace", *sys.argv[1:])
    with waiting("opening the videos and the model", is_quiet=is_quiet):
        runner = RetrainRunner.prepare(options, command=command, imports_seconds=process_seconds())
    if not is_quiet and not is_launched():
        setup = options.configuration()
        print(render_setup(machine=describe_machine(), versions=versions(), configuration=setup))
    if is_dry:
        print(_plan(runner), file=sys.stderr if is_quiet else sys.stdout)
        return None
    return keep(_with_progress(runner, is_quiet=is_quiet), options.out, is_quiet=is_quiet)


def _plan(runner: "RetrainRunner") -> str:
    from headrace.profiling.number_format import counted

    material = runner.material
    classes = material.examples.classes
    shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
    return (
        f"Dry run: {counted(runner.steps_planned, 'step')} on "
        f"{counted(material.frames, 'frame')} of {counted(len(material.trained_on), 'video')}, "
        f"{len(material.held_out)} held out, {len(classes)} classes ({shown}); "
        f"results would go to {runner.options.out}"
    )


def _conclude(
    session: "Session", options: "RetrainOptions", interrupted: int, *, is_quiet: bool
) -> None:
    """Say how it went; end with the exit code that tells."""
    from headrace.report.folder import REPORT
    from headrace.report.text import render_text

    learnt, out = session.training, options.out
    head = out / learnt.head if learnt and learnt.head else None
    if is_quiet:
        print(session.model_dump_json())
    else:
        print(render_text(session))
        print(f"Report: {out / REPORT}")
        if head is not None:
            model = options.compute.model_name
            print(f"Head: {head}\nUse it: headrace run VIDEO --model-name {model} --weights {head}")
    saved = "no head was saved" if head is None else f"the head as it was then is {head}"
    if session.outcome == "interrupted":
        print(f"headrace: interrupted; {saved}", file=sys.stderr)
        raise typer.Exit(interrupted)
    if session.outcome == "failed":
        print(f"headrace: {session.error}; {saved}", file=sys.stderr)
        raise typer.Exit(1)


def _with_progress(runner: "RetrainRunner", *, is_quiet: bool) -> "Session":
    """Train with a progress bar on a terminal's stderr; return the session."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    columns = (
        *("{task.description}", BarColumn(), MofNCompleteColumn()),
        *("steps, loss {task.fields[loss]}", TimeRemainingColumn()),
    )
    with progress_line(*columns, is_quiet=is_quiet) as progress:
        task = progress.add_task("training", total=runner.steps_planned, loss="?")

        def show(step: "Step") -> None:
            progress.update(task, completed=step.step + 1, loss=f"{step.loss:.3f}")

        return run_as_launched(runner, show, runner.options.out)
