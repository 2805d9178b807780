"""Tests of benchmarks/tables/headline.py: the README's first figures are those measured."""

import pytest

from benchmark_fakes import result, row
from benchmarks.tables.headline import headline

FRAMES = result(
    row("baseline", [10, 20, 40]),
    row("headrace_256MiB", [90, 180, 360]),
    row("headrace_1GiB", [400, 1100, 1600]),
    batch_size=128,
)


def test_it_says_how_many_times_as_fast_and_on_what() -> None:
    first, chart, measured, told = headline(FRAMES, None, "<svg>").split("\n\n")
    assert first.startswith("**Random frames, each the exact one, at 40 times the speed")
    assert chart == "<svg>"
    assert measured == (
        "Batches of 128 uniformly random frames of 4 videos, H.264, 1280×720 to 256×256, on 2 "
        "cores, once the look-ahead is filled:"
    )
    assert told == (
        "- *web* (mean GOP 77, 69% B-frames): 1,100 frames/s within 1 GiB, 40 times the "
        "DataLoader's 20; 180 within 256 MiB, 9.0 times."
    )


def test_where_less_is_won_is_said_too() -> None:
    many = result(
        row("headrace", [2000], kind="10 files", lookahead=500, warm_up_frames=500),
        row("headrace", [30], kind="1,000 files", lookahead=5000, warm_up_frames=900),
        memory_budget="1GiB",
        warm_up_seconds=60.0,
    )
    assert headline(FRAMES, many, "").splitlines()[-1] == (
        "- 1,000 files within 1GiB: 30 frames/s after 60 s, the look-ahead still being filled."
    )


def test_a_way_that_was_not_timed_is_named() -> None:
    without = FRAMES.model_copy(update={"rows": FRAMES.rows[:2]})
    with pytest.raises(ValueError, match="tells of headrace_1GiB on web, which was not timed"):
        headline(without, None, "")
