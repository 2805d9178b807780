"""`headrace profile --apply-advice`: a second run of the script with the advised change."""

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.signals import STDERR, ChildEnd
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.profiling.session import Session

RunScript = Callable[[dict[str, Any], int | None], ChildEnd]
"""(`outputs` of `loop_profile.report_loops`, standard output) → end of the script."""
_WIDTH: Final = 80
"""Columns."""
_NO_LOOPS: Final = "[]"
"""JSON of a script without loops."""


def profile_twice(run_script: RunScript, out: Path | None, json_file: Path | None) -> int:
    """Profile a script, run it again with the advised change, and report the gain on stderr.

    The second run prints to stderr, so that standard output has the output of one run.

    Args:
        run_script: Runs the script.
        out: Folder of the reports; reports of the second run go to a subfolder.
        json_file: File for the sessions of both runs.

    Returns:
        Exit code of the first run, or of an interrupted second run; negative: a signal.
    """
    from headrace.profiling.findings.loader_trial import choose_trial, describe_trial
    from headrace.runs.what_if import FOLDER

    with TemporaryDirectory(prefix="headrace-") as folder:
        path = Path(folder) / "before.json"
        first = run_script({"out": out, "json": path}, None)
        before = _read(path)
        _write(json_file, before, _NO_LOOPS)
        if first.code or first.is_interrupted:
            _print(f"Tried no change, because the script {first}.")
            return first.code
        trial, refusals = choose_trial(_parse(before))
        for refusal in refusals:
            _print(refusal)
        if trial is None:
            return first.code
        _print(f"Trying {trial}: the script runs a second time ...")
        change = {
            "loop": trial.loop.provenance.configuration,
            "options": dict(trial.change.options),
        }
        path = Path(folder) / "after.json"
        outputs = {"out": out and out / FOLDER, "json": path, "change": change}
        second = run_script(outputs, STDERR)
        after = _read(path)
        _write(json_file, before, after)
        if second.code:
            _print(f"Tried {trial}: the gain is unknown, because the second run {second}.")
        else:
            _print(f"Tried {describe_trial(trial, _parse(after))}")
        return second.code if second.is_interrupted else first.code


def _read(path: Path) -> str:
    """Return the sessions of a run as JSON; a script without loops writes no file."""
    return path.read_text(encoding="utf-8") if path.exists() else _NO_LOOPS


def _parse(sessions: str) -> "list[Session]":
    from pydantic import TypeAdapter, ValidationError

    from headrace.profiling.session import Session

    try:
        return TypeAdapter(list[Session]).validate_json(sessions)
    except ValidationError as error:
        raise ConfigError(
            "cannot read the profile of the script: it is incomplete, or from another version of "
            "headrace; use the Python that this headrace is installed in"
        ) from error


def _write(json_file: Path | None, before: str, after: str) -> None:
    """Write the sessions of both runs; a failure is printed."""
    from headrace.atomic_file import write_whole

    if json_file is not None:
        text = f'{{"before": {before.strip()}, "after": {after.strip()}}}\n'
        try:
            write_whole(json_file, text)
        except ConfigError as error:
            _print(str(error))


def _print(sentence: str) -> None:
    """Print to stderr, since stdout belongs to the script."""
    from headrace.report.text import printable

    lines = wrap(f"headrace: {sentence}", _WIDTH, subsequent_indent="  ")
    print("\n".join(map(printable, lines)), file=sys.stderr, flush=True)
