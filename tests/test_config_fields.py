"""Values of options are checked against their fields, in Python and on the command line."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from headrace.config_fields import FrameSize, Option, Videos, check_options
from headrace.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Config:
    """Options with bounds."""

    videos: Videos = ("a.mp4",)
    number: Annotated[int | None, Option("A number.", least=2)] = None
    share: Annotated[float, Option("A share.", least=0, most=1)] = 0.5
    seconds: Annotated[float, Option("A time.", above=0)] = 1.0
    word: Annotated[Literal["a", "b"], Option("A word.")] = "a"
    words: Annotated[tuple[Literal["a", "b"], ...], Option("Words.")] = ()
    size: FrameSize = (2, 4)
    free: Annotated[str, Option("Anything.")] = ""

    def __post_init__(self) -> None:
        check_options(self)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"videos": ()}, "at least one video is needed, got none"),
        ({"number": 1}, "number must be an integer >= 2, got 1"),
        ({"share": 1.5}, r"share must be in \[0, 1\], got 1.5"),
        ({"share": float("nan")}, r"share must be in \[0, 1\], got nan"),
        ({"seconds": 0}, "seconds must be > 0, got 0"),
        ({"seconds": float("nan")}, "seconds must be > 0, got nan"),
        ({"seconds": None}, "seconds must be given, got None"),
        ({"word": None}, "word must be one of a, b, got None"),
        ({"words": "ab"}, "words must be a tuple, got 'ab'"),
        ({"word": "c"}, "word must be one of a, b, got 'c'"),
        ({"words": ("a", "c")}, "words must be among a, b; got c"),
        ({"size": (0, 4)}, "size must be numbers from 1 up, got 0, 4"),
    ],
)
def test_an_invalid_value_is_named_with_the_valid_range(options, said):
    with pytest.raises(ConfigError, match=said):
        Config(**options)


@pytest.mark.parametrize(
    "options", [{}, {"number": 2}, {"share": 0}, {"share": 1}, {"words": ("b",)}, {"free": "x"}]
)
def test_valid_values_pass(options):
    assert Config(**options)
