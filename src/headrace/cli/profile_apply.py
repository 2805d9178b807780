"""`headrace profile --apply-advice`: the script twice, the second time with the change advised."""

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
"""(`outputs` of `instrumentation.script_end.report_loops`, standard output) → end of the script."""
_WIDTH: Final = 80
"""Columns."""
_NO_LOOPS: Final = "[]"


def profile_twice(run_script: RunScript, out: Path | None, json_file: Path | None) -> int:
    """Profile a script, make the change that is advised, and report the gain on stderr.

    The second run prints to stderr, so that the standard output is that of one run.

    Args:
        run_script: Runs the script.
        out: Folder of the reports; those of the second run go to a folder in it.
        json_file: File of the sessions of both runs.

    Returns:
        Exit code of the first run, or of an interrupted second one; negative: a signal.
    """
    from headrace.profiling.findings.loader_trial import choose_trial, describe_trial
    from headrace.runs.what_if import FOLDER

    with TemporaryDirectory(prefix="headrace-") as folder:
        path = Path(folder) / "before.json"
        first = run_script({"out": out, "json": path}, None)
        before = _read(path)
        _write(json_file, before, _NO_LOOPS)
        if first.code or first.is_asked:
            _tell(f"Tried no change, because the script {first}.")
            return first.code
        trial, refused = choose_trial(_parse(before))
        for sentence in refused:
            _tell(sentence)
        if trial is None:
            return first.code
        _tell(f"Trying {trial}: the script runs a second time ...")
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
            _tell(f"Tried {trial}: the gain is not known, because the second run {second}.")
        else:
            _tell(f"Tried {describe_trial(trial, _parse(after))}")
        return second.code if second.is_asked else first.code


def _read(path: Path) -> str:
    """Return the sessions of a run as JSON; a script without a loop writes none."""
    return path.read_text(encoding="utf-8") if path.exists() else _NO_LOOPS


def _parse(sessions: str) -> "list[Session]":
    from pydantic import TypeAdapter, ValidationError

    from headrace.profiling.session import Session

    try:
        return TypeAdapter(list[Session]).validate_json(sessions)
    except ValidationError as error:
        raise ConfigError(
            "cannot read the profile of the script: it is not whole, or of another version of "
            "headrace; give the Python in which this headrace is installed"
        ) from error


def _write(json_file: Path | None, before: str, after: str) -> None:
    """Write the sessions of both runs; a failure is printed."""
    from headrace.atomic_file import write_whole

    if json_file is not None:
        text = f'{{"before": {before.strip()}, "after": {after.strip()}}}\n'
        try:
            write_whole(json_file, text)
        except ConfigError as error:
            _tell(str(error))


def _tell(sentence: str) -> None:
    """Print to stderr: stdout is the script's own."""
    from headrace.report.text import printable

    lines = wrap(f"headrace: {sentence}", _WIDTH, subsequent_indent="  ")
    print("\n".join(map(printable, lines)), file=sys.stderr, flush=True)
