"""Options generated from the fields of a configuration: kinds, defaults, bounds and lists."""

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from headrace.bench.registry import BENCHMARKS
from headrace.cli.app import build_command
from headrace.cli.config_flags import configured, parameters, with_parameters
from headrace.config_fields import FrameSize, Option, Videos, option_fields
from headrace.planner.plan_config import PlanConfig


@dataclass(frozen=True, kw_only=True)
class Every:
    """A field of every kind."""

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
    """Return a function: arguments -> the configuration, or (exit code, stderr)."""

    def run(*arguments):
        configurations = []

        def collect(**values):
            configurations.append(configured(Every, values))

        command = build_command("every", with_parameters(collect, parameters(Every), "Help."))
        try:
            command([*map(str, arguments)])
        except SystemExit as end:
            return configurations[0] if configurations else (end.code, capsys.readouterr().err)
        return None

    return run


def test_an_omitted_option_is_the_default_of_the_field(typed):
    assert typed("v.mp4", "--in", "d") == Every(videos=("v.mp4",), folder=Path("d"))


def test_every_kind_is_parsed(typed):
    configuration = typed(
        *("v.mp4", "w.mp4", "--into", "d", "--number", 5, "--share", 0.5, "--word", "b"),
        *("--size", "8x16", "--counts", "4,2,4", "--words", "p, q", "--memory", "2", "--is-loud"),
    )
    assert configuration == Every(
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
    "configuration",
    [PlanConfig, *(benchmark.config for benchmark in BENCHMARKS)],
    ids=lambda configuration: configuration.__name__,
)
def test_defaults_of_commands_equal_those_of_the_library(configuration):
    required = {"videos": [Path("a.mp4")], "index_file": Path("i.json")}
    fields = {field.name: field for field in option_fields(configuration)}
    values = {parameter.name: parameter.default for parameter in parameters(configuration)}
    given = {name: required[name] for name, field in fields.items() if field.default is MISSING}
    built = configured(configuration, values | given)
    for name, field in fields.items():
        if field.default is not MISSING:
            assert getattr(built, name) == field.default, name
