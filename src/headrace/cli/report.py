"""`headrace report`: the report of a recorded run or suite, rendered again."""

from pathlib import Path
from typing import Annotated

import typer


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
    from headrace.cli.find_run import find_run
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
