"""`headrace compare`: recorded runs, each against the first."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.profiling.session import Session

_MAX_NAMED: Final = 4
"""Runs that the error for a folder of runs names."""


def _find_run(path: Path) -> Path:
    """Return the run folder of `path`: the folder itself, or the folder of its `session.json`.

    Raises:
        ConfigError: `path` holds several runs, or results of `headrace bench`. A folder with
            neither is returned as it is.
    """
    from headrace.bench.registry import BENCHMARKS
    from headrace.report.folder import SESSION

    if path.name == SESSION:
        return path.parent
    if (path / SESSION).is_file():
        return path
    runs = sorted(session.parent for session in path.glob(f"*/{SESSION}"))
    if runs:
        names = " ".join(map(str, runs[:_MAX_NAMED])) + (" ..." if len(runs) > _MAX_NAMED else "")
        raise ConfigError(f"{path} is not a run, but a folder of runs; give the runs: {names}")
    for benchmark in BENCHMARKS:
        name = f"{benchmark.name}.json"
        if path.name == name or (path / name).is_file():
            raise ConfigError(
                f"{path} holds results of headrace bench {benchmark.name}, not a run; give folders "
                "of headrace run, of headrace profile --out, or of the workers of a launch"
            )
    return path


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of runs; each is compared with the first."),
    ],
    any_input: Annotated[
        bool, typer.Option("--any-input", help="Compare runs on different videos, too.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, nothing else.")] = False,
) -> None:
    """Compare recorded runs: environment differences, then figures."""
    from headrace.atomic_file import write_whole
    from headrace.profiling.comparison.comparison import compare as compare_sessions
    from headrace.report.comparison_page import render_comparison, render_comparison_text

    comparison = compare_sessions(_load_sessions(runs), any_input=any_input)
    if out is not None:
        if out.is_dir():
            raise ConfigError(f"--out {out} is a folder; give a file such as {out / 'page.html'}")
        write_whole(out, render_comparison(comparison))
    if json:
        print(comparison.model_dump_json())
        return
    print(render_comparison_text(comparison), end="")
    if out is not None:
        print(f"Page: {out}")


def _load_sessions(runs: list[Path]) -> "dict[str, Session]":
    """Return folder name → session; path → session where two folders have the same name."""
    from headrace.profiling.session import Session
    from headrace.report.folder import SESSION

    paths = [_find_run(run) for run in runs]
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError("a run is given twice; give different folders")
    names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    sessions = [Session.load(path / SESSION) for path in paths]
    return dict(zip(names, sessions, strict=True))
