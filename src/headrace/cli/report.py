"""`headrace report`: the report of a recorded run or suite, rendered again."""

from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.errors import ConfigError

_MAX_NAMED: Final = 4
"""Max runs or files in an error message."""
_GIVE: Final = (
    "give an output folder (--out) of headrace run or headrace profile, or of a worker of headrace "
    "launch"
)


def report(
    run_dir: Annotated[
        Path, typer.Argument(help="Folder of a run (session.json) or of bench all (all.json).")
    ],
    text: Annotated[
        bool, typer.Option("--text", help="Print text instead of writing the page.")
    ] = False,
) -> None:
    """Render the report of a run or of bench all again."""
    from headrace.bench.suite.suite_selection import SUITE
    from headrace.profiling.session import Session
    from headrace.report.folder import SESSION, render_again
    from headrace.report.text import render_text

    if (run_dir / SUITE).is_file() and not (run_dir / SESSION).is_file():
        _render_suite(run_dir, as_text=text)
        return
    folder = find_run(run_dir)
    if text:
        print(render_text(Session.load(folder / SESSION)), end="")
        return
    print(f"Report: {render_again(folder)}")


def _render_suite(folder: Path, *, as_text: bool) -> None:
    from headrace.bench.registry import BENCHMARKS
    from headrace.bench.suite.ranking import rank
    from headrace.bench.suite.suite_page import render_suite_text, write_page
    from headrace.bench.suite.suite_selection import read_suite

    record = read_suite(folder)
    assert record is not None
    ranking = rank(BENCHMARKS, record, folder)
    if as_text:
        print(render_suite_text(ranking), end="")
        return
    print(f"Report: {write_page(ranking, folder)}")


def find_run(path: Path) -> Path:
    """Return the run folder of `path`: the folder itself, or the folder of its `session.json`.

    Raises:
        ConfigError: there is no session, or there are several; the message says what `path` is.
    """
    from headrace.profiling.number_format import listing
    from headrace.report.folder import SESSION
    from headrace.report.ranks_page import RECORD

    if path.name == SESSION and path.is_file():
        return path.parent
    if (path / SESSION).is_file():
        return path
    if not path.exists():
        raise ConfigError(f"cannot read the run {path}: no such folder; {_GIVE}")
    if names := [str(session.parent) for session in sorted(path.glob(f"*/{SESSION}"))]:
        raise ConfigError(f"{path} is a folder of runs, not a run; give a run: {_joined(names)}")
    if (path / RECORD).is_file():
        raise ConfigError(
            f"{path} has the report of the ranks of one training, not a run; open "
            f"{path / 'report.html'}, or {_GIVE}"
        )
    if names := _find_benchmarks(path):
        raise ConfigError(
            f"{path} has results of headrace bench {listing(names)}, not a run; their pages are "
            f"beside them, such as {names[0]}.html; {_GIVE}"
        )
    if path.is_file():
        raise ConfigError(f"{path} is a file, not the folder of a run; {_GIVE}")
    raise ConfigError(f"{path} is not the folder of a run: it has no {SESSION}; {_GIVE}")


def _joined(names: list[str]) -> str:
    return " ".join(names[:_MAX_NAMED]) + (" ..." if len(names) > _MAX_NAMED else "")


def _find_benchmarks(path: Path) -> list[str]:
    """Return the names of the benchmarks with a result in a folder, or in a file."""
    from headrace.bench.registry import BENCHMARKS

    files = {path.name} if path.is_file() else {file.name for file in path.iterdir()}
    return [each.name for each in BENCHMARKS if f"{each.name}.json" in files]
