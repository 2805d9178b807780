"""`headrace run --mode retrain`: flags, progress and summary."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final, Literal

from headrace.cli.config_flags import configured, flag_of, option, parameters, with_parameters
from headrace.cli.progress import progress_line, waiting
from headrace.cli.run_flags import run_options
from headrace.cli.save_session import (
    conclude,
    execute,
    run_as_launched,
    saying_when_interrupted,
)
from headrace.cli.signals import ending_on_sigterm
from headrace.cli.sources import check_videos, frame_size
from headrace.errors import ConfigError
from headrace.runs.retrain.retrain_options import LabelledInput, RetrainOptions, TrainOptions

if TYPE_CHECKING:
    from headrace.profiling.session import Session
    from headrace.profiling.steps import Step
    from headrace.runs.retrain.retrain_session import RetrainRunner

_MODE: Final = option(
    "mode",
    Literal["inference", "retrain"],
    "inference",
    "Run the model, or train a new head for it on labelled videos.",
)
_RETRAIN: Final = (
    *parameters(LabelledInput, only="labels"),
    *parameters(TrainOptions, only="epochs learning_rate train_from checkpoint_gradients"),
    *parameters(LabelledInput, only="held_out"),
    option(
        "size",
        str | None,
        None,
        "Retrain: decode to this size, such as 256x456.",
        metavar="HxW",
    ),
    *parameters(TrainOptions, only="seed"),
)
_SHARED: Final = frozenset(
    [
        *("sources", "model_name", "weights", "batch_size", "prep_level", "device", "threads"),
        *("input_path", "infer_on_gpu", "core_bind", "compile", "amp"),
        *("max_steps", "stride", "on_error", "out", "dry_run", "json"),
    ]
)
"""Options of a run that a training has too."""


def with_mode(
    run: Callable[..., None], shared: Sequence[Parameter], summary: str
) -> Callable[..., None]:
    """Return the command `run` with `--mode` and the options of a training.

    Options of the other mode are refused.

    Args:
        run: Takes the values of `shared` by name.
        shared: Options of a run.
        summary: Summary of the command.
    """
    options = {option.name: option for option in (*shared, _MODE, *_RETRAIN)}
    retrain_names = {option.name for option in _RETRAIN}
    run_names = {option.name for option in shared}

    def command(mode: str, **typed: Any) -> None:
        unsupported = retrain_names if mode == "inference" else run_names - _SHARED
        for name in typed:
            if name in unsupported and typed[name] != options[name].default:
                other = "retrain" if mode == "inference" else "inference"
                raise ConfigError(
                    f"{flag_of(options[name], typed[name])} is for --mode {other}; leave it out "
                    f"of --mode {mode}"
                )
        if mode == "inference":
            run(**{name: value for name, value in typed.items() if name not in retrain_names})
        else:
            _retrain(**{name: typed[name] for name in typed if name in retrain_names | _SHARED})

    return with_parameters(command, [*options.values()], summary)


def _retrain(*, dry_run: bool, json: bool, **typed: Any) -> None:
    from headrace.profiling.machine import process_seconds

    options = _options(**typed)
    command = ("headrace", *sys.argv[1:])
    with ending_on_sigterm() as ending:
        with saying_when_interrupted(ending, options.out):
            with waiting("loading PyTorch", is_quiet=json):
                from headrace.runs.retrain.retrain_session import RetrainRunner

            with waiting("opening the videos and the model", is_quiet=json):
                runner = RetrainRunner.prepare(
                    options, command=command, imports_seconds=process_seconds()
                )
            session = execute(
                runner,
                ending,
                plan=_plan,
                with_progress=partial(_with_progress, is_quiet=json),
                is_dry=dry_run,
                is_quiet=json,
            )
        if session is not None:
            _conclude(session, options, ending.exit_code, is_quiet=json)


def _options(**typed: Any) -> RetrainOptions:
    from headrace.video.find_videos import find_videos

    options = run_options(typed)
    if options.compute.execution.fit_batch:
        raise ConfigError("--batch-size auto is for --mode inference; a training takes a number")
    retrain = RetrainOptions(
        input=LabelledInput(
            sources=options.input.sources,
            labels=typed["labels"],
            held_out=typed["held_out"],
            stride=options.input.stride,
            size=frame_size(typed["size"]),
            on_error=options.input.on_error,
        ),
        training=configured(TrainOptions, typed, max_steps=typed["max_steps"]),
        compute=options.compute,
        out=typed["out"],
    )
    check_videos(find_videos(retrain.input.sources))
    return retrain


def _plan(runner: "RetrainRunner") -> str:
    from headrace.profiling.number_format import counted

    dataset = runner.dataset
    classes = dataset.labels.classes
    names = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
    return (
        f"{counted(runner.steps_planned, 'step')} on "
        f"{counted(dataset.frames, 'frame')} of {counted(len(dataset.training_videos), 'video')}, "
        f"{len(dataset.held_out)} held out, {len(classes)} classes ({names})"
    )


def _conclude(
    session: "Session", options: RetrainOptions, interrupted: int, *, is_quiet: bool
) -> None:
    """Print the summary and the path of the head; exit with the code of the outcome."""
    from headrace.report.folder import REPORT

    training, out = session.training, options.out
    head = out / training.head if training and training.head else None
    lines = [f"Report: {out / REPORT}"]
    if head is not None:
        model = options.compute.model_name
        lines += [f"Head: {head}"]
        lines += [f"Use it: headrace run VIDEO --model-name {model} --weights {head}"]
    saved = "no head was saved" if head is None else f"the head at that time is in {head}"
    conclude(session, lines, saved, interrupted, is_quiet=is_quiet)


def _with_progress(runner: "RetrainRunner", *, is_quiet: bool) -> "Session":
    """Train with a progress bar on stderr; return the session."""
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    columns = (
        *("{task.description}", BarColumn(), MofNCompleteColumn()),
        *("steps, loss {task.fields[loss]}", TimeRemainingColumn()),
    )
    with progress_line(*columns, is_quiet=is_quiet) as progress:
        task = progress.add_task("training", total=runner.steps_planned, loss="?")

        def show(step: "Step") -> None:
            progress.update(task, completed=step.step + 1, loss=f"{step.loss:.3f}")

        return run_as_launched(runner, show, runner.out)
