"""Repetitions are interleaved, the warm-up does not count, and figures say how noisy they are."""

from dataclasses import dataclass

import pytest

from headrace.measuring.interleaved import (
    MedianRange,
    NoiseCheck,
    Repetition,
    Stopwatch,
    as_fast,
    cores_of_others,
    fastest,
    interleave,
)
from headrace.testing.fake_clock import FakeClock


@dataclass(frozen=True, kw_only=True)
class Row:
    """Something timed."""

    rate: MedianRange
    others: float | None = 0.0


def row(median, lowest=None, highest=None, others=0.0):
    return Row(
        rate=MedianRange(median=median, lowest=lowest or median, highest=highest or median),
        others=others,
    )


def turn(seconds, others):
    return Repetition(seconds=seconds, cpu_seconds=1, others_cpu_seconds=others)


def test_contenders_take_turns_and_the_warm_up_goes_first_uncounted():
    seen, taken = [], []
    found = interleave(
        ["a", "b"],
        lambda name: taken.append(name) or name.upper(),
        repeats=2,
        label=lambda name: f"way {name}",
        warm_up="b",
        on_progress=lambda *each: seen.append(each),
    )
    assert taken == ["b", "a", "b", "a", "b"]
    assert found == ("A", "B", "A", "B")
    assert seen == [(f"way {name}", done, 5) for done, name in enumerate("babab")]


def test_without_a_warm_up_every_turn_counts():
    assert interleave([0, 1], lambda each: each, repeats=2) == (0, 1, 0, 1)


def test_a_stopwatch_tells_wall_and_processor_time():
    clock = FakeClock()
    watch = Stopwatch(clock)
    clock.advance(2)
    assert watch.seconds == 2
    sum(range(3_000_000))
    taken = watch.stop(1.5)
    assert taken.seconds == 1.5
    assert taken.cpu_seconds > 0
    assert taken.others_cpu_seconds >= 0


def test_a_spread_is_what_turns_differ_by():
    spread = MedianRange.of([4.0, 2.0, 5.0])
    assert (spread.median, spread.lowest, spread.highest, spread.share) == (4, 2, 5, 0.75)


def test_what_others_took_is_known_where_a_turn_told():
    assert cores_of_others([turn(2, 1), turn(2, 3), turn(2, None)]) == 1
    assert cores_of_others([turn(2, None)]) is None


@pytest.mark.parametrize(
    ("rows", "doubt", "said"),
    [
        ([row(100)], "", []),
        ([row(100, 97, 101)], "", []),
        ([row(100, others=0.4), row(90, others=None)], "", []),
        ([row(100, 90, 101)], "", ["Repetitions differ by up to 11 %"]),
        ([row(100, 50, 101)], "Too unsteady to say", ["Repetitions differ by up to 51 %"]),
        (
            [row(100), row(100, 50, 101, others=0.5)],
            "Other programs ran meanwhile, so it is uncertain",
            [
                "Other programs kept up to 0.500 of 4 usable cores",
                "Repetitions differ by up to 51 %",
            ],
        ),
    ],
)
def test_what_speaks_against_figures_is_said_and_leaves_no_verdict(rows, doubt, said):
    trust = NoiseCheck.of(rows, 4)
    assert trust.doubt == doubt
    told = trust.sentences("Repetitions")
    assert [sentence[: len(start)] for sentence, start in zip(told, said, strict=True)] == said


def test_rows_as_close_as_the_turns_of_one_differ_are_as_fast():
    rows = [row(26.3, 25.9, 27.0), row(29.4, 28.7, 30.2), row(32.3, 30.2, 34.5)]
    assert as_fast(rows) == rows[1:], "one differs by 13 %, the others are 9 % apart"


def test_rows_within_five_percent_of_the_fastest_are_as_fast():
    rows = [row(94), row(95), row(100), row(100)]
    assert fastest(rows) is rows[2]
    assert as_fast(rows) == rows[1:]
