"""Command lines from function signatures."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from benchmarks.command_line import call, parse


def measured(
    kind: Literal["frames", "cameras"],
    sources: tuple[str, ...] = (),
    *,
    before: str,
    media: Path = Path("there"),
    sizes: tuple[int, ...] = (1, 2),
    pair: tuple[int, int] = (3, 4),
    only: tuple[str, ...] = ("scan", "plan"),
    seconds: float | None = 8.0,
    is_quick: bool = False,
) -> Any:
    """Return the arguments.

    Args:
        kind: kind of loader
        before: commit to compare,
            by name
    """
    return locals()


DEFAULTS = {
    **{"kind": "frames", "sources": (), "before": "x", "media": Path("there"), "sizes": (1, 2)},
    **{"pair": (3, 4), "only": ("scan", "plan"), "seconds": 8.0, "is_quick": False},
}


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("", {}),
        ("a b --media here", {"sources": ("a", "b"), "media": Path("here")}),
        ("--sizes 5 6 7 --pair 8 9", {"sizes": (5, 6, 7), "pair": (8, 9)}),
        ("--only plan --seconds 2 --is-quick", {"only": ("plan",), "seconds": 2, "is_quick": True}),
    ],
)
def test_parameters_become_arguments_and_options(words, changed):
    assert call(measured, "", ["frames", *words.split(), "--before", "x"]) == {
        **DEFAULTS,
        **changed,
    }


@pytest.mark.parametrize(
    "words", ["frames", "frame --before x", "frames --before x --only all", "frames --seconds x"]
)
def test_missing_and_invalid_values_are_refused(words):
    with pytest.raises(SystemExit, match="2"):
        call(measured, "", words.split())


def test_bound_parameters_are_left_out_and_options_can_be_added():
    bound = partial(measured, before="y", seconds=None)
    arguments = parse(bound, "", ["cameras", "--out", "o"], out=Path("a"))
    assert arguments["out"] == Path("o")
    assert {"before", "seconds"} & {*arguments} == set()
    with pytest.raises(SystemExit, match="2"):
        parse(bound, "", ["cameras", "--seconds", "3"])


def test_help_comes_from_the_docstring(capsys):
    with pytest.raises(SystemExit, match="0"):
        call(measured, "How fast?", ["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "How fast?" in text
    assert "{frames,cameras} kind of loader" in text
    assert "--before BEFORE commit to compare, by name" in text
