"""`headrace run --try`: the advised change is made, and held against what was predicted."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.profiling.session import Session
    from headrace.runs.options import RunOptions


def refuse_other_than_file() -> None:
    """Say that only a file at full speed can be run again."""
    from headrace.errors import ConfigError

    raise ConfigError(
        "--try runs twice and compares, which needs one video file at full speed; "
        "give one file, without --pace realtime"
    )


def try_advice(
    options: "RunOptions",
    session: "Session",
    run: "Callable[[RunOptions], Session | None]",
    *,
    is_quiet: bool,
) -> None:
    """Run again with the change that `session` advises, and say what it brought.

    Args:
        options: Of the run.
        session: What it came to.
        run: Runs with other options, without a word.
        is_quiet: What is said goes to stderr.
    """
    from headrace.runs.what_if import in_words, trial_of

    to = sys.stderr if is_quiet else sys.stdout
    trial = trial_of(options, session)
    if trial is None:
        print("Tried nothing: no option makes the change that is advised.", file=to)
        return
    print(f"Trying {trial.change.words.partition(':')[0]} ...", file=to, flush=True)
    after = run(trial.options)
    if after is not None:
        print(f"Tried {in_words(trial, session, after)}", file=to)
        print(f"Its report: {trial.options.output.out / 'report.html'}", file=to)
