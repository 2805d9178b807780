"""`headrace compare`: recorded runs beside the first of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.profiling.session import Session

_SHOWN: Final = 4
"""Runs that are named to somebody who gave the folder above them."""


def run_folder(given: Path) -> Path:
    """Return the folder of a run, given it or its `session.json`.

    Raises:
        ConfigError: there are several runs in it, or results of `headrace bench`. A folder that
            holds neither is returned as it is.
    """
    from headrace.bench.registry import BENCHMARKS
    from headrace.report.folder import SESSION

    if given.name == SESSION:
        return given.parent
    if (given / SESSION).is_file():
        return given
    runs = sorted(path.parent for path in given.glob(f"*/{SESSION}"))
    if runs:
        named = " ".join(map(str, runs[:_SHOWN])) + (" ..." if len(runs) > _SHOWN else "")
        raise ConfigError(f"{given} is no run, but holds {len(runs)}; give those: {named}")
    found = [each.name for each in BENCHMARKS if _is_of(each.name, given)]
    if found:
        raise ConfigError(
            f"{given} holds what headrace bench {found[0]} found, and no run; give folders of "
            "headrace run, of watch --out, or of the workers of a launch"
        )
    return given


def _is_of(benchmark: str, given: Path) -> bool:
    name = f"{benchmark}.json"
    return given.name == name or (given / name).is_file()


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of runs; each against the first."),
    ],
    any_input: Annotated[
        bool, typer.Option("--any-input", help="Compare runs on different videos, too.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write it as this HTML page.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, nothing else.")] = False,
) -> None:
    """Compare recorded runs: what differs around them, then their figures."""
    from headrace.atomic_file import write_whole
    from headrace.profiling.comparison.comparison import compare as compared
    from headrace.report.comparison import render_comparison, render_comparison_text

    found = compared(_sessions(runs), any_input=any_input)
    if out is not None:
        if out.is_dir():
            raise ConfigError(f"--out {out} is a folder; give a file such as {out / 'page.html'}")
        write_whole(out, render_comparison(found))
    if json:
        print(found.model_dump_json())
        return
    print(render_comparison_text(found), end="")
    if out is not None:
        print(f"Page: {out}")


def _sessions(runs: list[Path]) -> "dict[str, Session]":
    """Read them, by the names of their folders, or by their paths where two are called the same."""
    from headrace.profiling.session import Session
    from headrace.report.folder import SESSION

    paths = [run_folder(run) for run in runs]
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError("a run is given twice; give different folders")
    names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    sessions = [Session.load(path / SESSION) for path in paths]
    return dict(zip(names, sessions, strict=True))
