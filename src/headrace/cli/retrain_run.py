"""`headrace run --mode retrain`: options, progress and summary."""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import typer

from headrace.cli.config_flags import configured, flag_of, option, parameters, with_parameters
from headrace.cli.progress import bar_columns, progress_line, waiting
from headrace.cli.run_flags import run_options
from headrace.cli.save_session import conclude, execute, print_interruption, run_as_launched
from headrace.cli.signals import ending_on_sigterm
from headrace.cli.sources import check_videos, frame_size
from headrace.errors import ConfigError
from headrace.profiling.number_format import counted
from headrace.runs.retrain.retrain_options import LabelledInput, RetrainOptions, TrainOptions

if TYPE_CHECKING:
    from headrace.profiling.session import Session, Step
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
        "size", str | None, None, "Retrain: size of decoded frames, such as 256x456.", metavar="HxW"
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
"""Options valid in both modes."""


def with_mode(
    run: Callable[..., None], shared: Sequence[Parameter], summary: str
) -> Callable[..., None]:
    """Return the command `run` with `--mode` and the options of retraining.

    Options of the other mode are refused.

    Args:
        run: Function with the options `shared` as keywords.
        shared: Options of a run.
        summary: Summary of the command.
    """
    options = {option.name: option for option in (*shared, _MODE, *_RETRAIN)}
    retrain_names = {option.name for option in _RETRAIN}
    run_names = {option.name for option in shared}

    def command(mode: str, **typed: Any) -> None:
        is_run = mode == "inference"
        unsupported = retrain_names if is_run else run_names - _SHARED
        for name in typed:
            if name in unsupported and typed[name] != options[name].default:
                other = "retrain" if is_run else "inference"
                raise ConfigError(
                    f"{flag_of(options[name], typed[name])} needs --mode {other}, got --mode "
                    f"{mode}; leave the option out"
                )
        (run if is_run else _retrain)(**typed)

    return with_parameters(command, [*options.values()], summary)


def _retrain(**typed: Any) -> None:
    options, is_quiet = _options(typed), typed["json"]
    with ending_on_sigterm() as ending:
        with print_interruption(ending, options.out):
            with waiting("loading PyTorch", is_quiet=is_quiet):
                from headrace.runs.retrain.retrain_session import RetrainRunner

            session = execute(
                RetrainRunner,
                options,
                ending,
                typed,
                opening="the videos and the model",
                plan=_plan,
                with_progress=partial(_with_progress, is_quiet=is_quiet),
            )
        if session is not None:
            _conclude(session, options, ending.exit_code, is_quiet=is_quiet)


def _options(typed: dict[str, Any]) -> RetrainOptions:
    from headrace.video.find_videos import find_videos

    options = run_options(typed)
    if options.compute.execution.fit_batch:
        raise ConfigError(
            "--batch-size auto needs --mode inference, got --mode retrain; give a number"
        )
    read = options.input
    retrain = RetrainOptions(
        input=configured(
            LabelledInput,
            typed,
            sources=read.sources,
            stride=read.stride,
            size=frame_size(typed["size"]),
            on_error=read.on_error,
        ),
        training=configured(TrainOptions, typed, max_steps=typed["max_steps"]),
        compute=options.compute,
        out=typed["out"],
    )
    check_videos(find_videos(retrain.input.sources))
    return retrain


def _plan(runner: "RetrainRunner") -> str:
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
) -> NoReturn:
    """Print the summary and the path of the head; exit with the code of the outcome."""
    from headrace.report.folder import REPORT

    training, out = session.training, options.out
    head = out / training.head if training and training.head else None
    lines = [f"Report: {out / REPORT}"]
    if head is not None:
        model = options.compute.model_name
        lines += [f"Head: {head}"]
        lines += [f"Use it: headrace run VIDEO --model-name {model} --weights {head}"]
    kept = "no head was saved" if head is None else f"the last saved head is {head}"
    raise typer.Exit(conclude(session, lines, kept, interrupted, is_quiet=is_quiet))


def _with_progress(runner: "RetrainRunner", *, is_quiet: bool) -> "Session":
    """Train with a progress bar on stderr; return the session."""
    columns = bar_columns("steps, loss {task.fields[loss]}")
    with progress_line(*columns, is_quiet=is_quiet) as progress:
        task = progress.add_task("training", total=runner.steps_planned, loss="?")

        def show(step: "Step") -> None:
            progress.update(task, completed=step.step + 1, loss=f"{step.loss:.3f}")

        return run_as_launched(runner, show)
