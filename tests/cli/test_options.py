"""Options of a command are the fields of its configuration: kinds, defaults, bounds and lists."""

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer

from headrace.bench.registry import BENCHMARKS
from headrace.cli.config_flags import configured, parameters, with_parameters
from headrace.config_fields import FrameSize, Option, Videos, option_fields
from headrace.planner.plan_config import PlanConfig


@dataclass(frozen=True, kw_only=True)
class Every:
    """One field of every kind."""

    videos: Videos
    folder: Annotated[Path, Option("A folder.", flags=("--in", "--into"))]
    number: Annotated[int, Option("A number.", least=1, most=9)] = 3
    share: Annotated[float | None, Option("A share.")] = None
    word: Annotated[Literal["a", "b"], Option("A word.")] = "a"
    size: FrameSize = (2, 4)
    counts: Annotated[tuple[int, ...], Option("Counts.", least=0)] = (0, 1)
    words: Annotated[tuple[str, ...], Option("Words.")] = ("x", "y")
    memory: Annotated[int | str, Option("Bytes.")] = "1KiB"
    is_loud: Annotated[bool, Option("Whether.")] = False
    unseen: int = 7


@pytest.fixture
def typed(capsys):
    """Return a function: arguments -> the configuration, or what stderr said."""

    def run(*arguments):
        made = []
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        take = with_parameters(
            lambda **values: made.append(configured(Every, values)), parameters(Every), "Does it."
        )
        app.command()(take)
        try:
            app([*map(str, arguments)])
        except SystemExit as end:
            return made[0] if made else (end.code, capsys.readouterr().err)
        return None

    return run


def test_what_is_not_typed_is_the_default_of_the_field(typed):
    assert typed("v.mp4", "--in", "d") == Every(videos=("v.mp4",), folder=Path("d"))


def test_every_kind_can_be_typed(typed):
    found = typed(
        *("v.mp4", "w.mp4", "--into", "d", "--number", 5, "--share", 0.5, "--word", "b"),
        *("--size", 8, 16, "--counts", "4,2,4", "--words", "p, q", "--memory", "2", "--is-loud"),
    )
    assert found == Every(
        videos=("v.mp4", "w.mp4"),
        folder=Path("d"),
        number=5,
        share=0.5,
        word="b",
        size=(8, 16),
        counts=(4, 2),
        words=("p", "q"),
        memory="2",
        is_loud=True,
    )


ERRORS = {
    **{"": "--in", "--in d --unseen 8": "--unseen", "--in d --word c": "'c' is not one of"},
    "--in d --number 10": "less than or equal to 9",
    "--in d --counts 1,two": "'--counts': must be numbers separated by commas",
}


@pytest.mark.parametrize("words", ERRORS)
def test_a_usage_error_names_the_option(typed, words):
    code, err = typed("v.mp4", *words.split())
    assert (code, ERRORS[words] in err) == (2, True), err


@pytest.mark.parametrize(
    "configuration", [PlanConfig, *(each.config for each in BENCHMARKS)], ids=lambda c: c.__name__
)
def test_commands_default_to_what_the_library_defaults_to(configuration):
    """What a command makes of nothing typed is what Python makes of nothing given."""
    required = {"videos": [Path("a.mp4")], "index_file": Path("i.json")}
    fields = {field.name: field for field in option_fields(configuration)}
    values = {each.name: each.default for each in parameters(configuration)}
    given = {name: required[name] for name, field in fields.items() if field.default is MISSING}
    made = configured(configuration, values | given)
    for name, field in fields.items():
        if field.default is not MISSING:
            assert getattr(made, name) == field.default, name
