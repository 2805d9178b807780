"""`headrace compare`: recorded runs, each compared with the first."""

from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from headrace.atomic_file import write_whole
from headrace.cli.config_flags import JsonFlag
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.profiling.session import Session

_AGAINST: Final = " -- "
"""Replacement for the argument `--`, which Click would drop."""


class _Compare(TyperCommand):
    """Command whose `--` separates the repeats of the two sides."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep each `--` as an argument."""
        return super().parse_args(ctx, [_AGAINST if word == "--" else word for word in args])


COMMAND: Final = _Compare


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders; each is compared with the first. With --, the runs before it are "
            "repeats of one side, the runs after it repeats of the other.",
        ),
    ],
    any_input: Annotated[
        bool, typer.Option("--any-input", help="Allow runs on different videos.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write an HTML page to this file.")] = None,
    json: JsonFlag = False,
) -> None:
    """Compare recorded runs: differences in environment, then in figures.

    `compare a1 a2 a3 -- b1 b2 b3` compares repeats, which show the variation between runs.
    """
    from headrace.profiling.comparison import compare as compare_sessions
    from headrace.report.comparison_page import render_comparison, render_comparison_text

    sessions = _load_sessions([run for run in runs if str(run) != _AGAINST])
    comparison = compare_sessions(*_sides(runs, sessions), any_input=any_input)
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


def _sides(runs: list[Path], sessions: "dict[str, Session]") -> "list[dict[str, Session]]":
    """Return the sessions of each side; without `--`, one side with all sessions."""
    sides: list[dict[str, Session]] = []
    named = iter(sessions.items())
    for is_against, side in groupby(runs, lambda run: str(run) == _AGAINST):
        if not is_against:
            sides.append(dict(islice(named, len(list(side)))))
    if len(sides) < 2 and any(str(run) == _AGAINST for run in runs):
        raise ConfigError("-- has runs on one side only; give runs before and after it")
    return sides


def _load_sessions(runs: list[Path]) -> "dict[str, Session]":
    """Return folder name → session; path → session where two folders have the same name."""
    from headrace.cli.report import find_run
    from headrace.profiling.session import Session
    from headrace.report.folder import SESSION

    paths = [find_run(run) for run in runs]
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError("a run is given twice; give different folders")
    names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    sessions = [Session.load(path / SESSION) for path in paths]
    return dict(zip(names, sessions, strict=True))
