"""Interleaved repetitions, uncounted warm-up, and noise checks."""

import numpy as np
import pytest

from headrace.measuring import interleaved
from headrace.measuring.interleaved import NoiseCheck, RepeatSpread, Repetition, cores_of_others
from headrace.profiling.comparison import differences
from headrace.profiling.figures import BootstrapEstimate, Figure
from headrace.testing.fake_clock import FakeClock


class Timed(Repetition):
    """Repetition with a given rate."""

    work: float
    steps: tuple[float, ...] = ()

    @property
    def rate(self):
        return self.work

    @property
    def step_times(self):
        return self.steps


def row(*rates, others=0.0, steps=()):
    """Return a row with one repetition per rate; `others`: cores used by other programs."""
    times = {"seconds": 1, "cpu_seconds": 1, "others_cpu_seconds": others}
    return interleaved.RepetitionRow(
        repetitions=[Timed(work=rate, steps=steps, **times) for rate in rates]
    )


def turns(*others):
    """Return repetitions of 2 s, by CPU seconds of other programs."""
    return [Repetition(seconds=2, cpu_seconds=1, others_cpu_seconds=cpu) for cpu in others]


def test_contenders_alternate_after_an_uncounted_warm_up():
    seen, ran = [], []
    results = interleaved.interleave(
        ["a", "b"],
        lambda name: ran.append(name) or name.upper(),
        repeats=2,
        label=lambda name: f"variant {name}",
        warm_up="b",
        on_progress=lambda *step: seen.append(step),
    )
    assert ran == ["b", "a", "b", "a", "b"]
    assert results == ("A", "B", "A", "B")
    assert seen == [(f"variant {name}", done, 5) for done, name in enumerate("babab")]
    # Without a warm-up, every repetition counts.
    assert interleaved.interleave([0, 1], lambda number: number, repeats=2) == (0, 1, 0, 1)


def test_a_stopwatch_measures_wall_and_cpu_time():
    clock = FakeClock()
    watch = interleaved.Stopwatch(clock)
    clock.advance(2)
    assert watch.seconds == 2
    sum(range(3_000_000))
    times = watch.stop(1.5)
    assert times.seconds == 1.5
    assert times.cpu_seconds > 0
    assert times.others_cpu_seconds >= 0


def test_a_range_has_median_min_max_and_share():
    spread = interleaved.MedianRange.of([4.0, 2.0, 5.0])
    assert (spread.median, spread.lowest, spread.highest, spread.share) == (4, 2, 5, 0.75)


def test_cpu_time_of_other_programs_is_known_from_repetitions_that_have_it():
    assert cores_of_others(turns(1, 3, None)) == 1
    assert interleaved.others_cpu_share(turns(1, 2, None)) == 0.6
    assert cores_of_others(turns(None)) is interleaved.others_cpu_share(turns(None)) is None


ONCE = "Each row was measured once: no difference was tested."
UNSTEADY = "The repetitions vary too much to say"


@pytest.mark.parametrize(
    ("rows", "doubt", "starts"),
    [
        ([row(100)], "", [ONCE]),
        ([row(100, 97, 101)], "", ["Repetitions differ by up to 4.0 %."]),
        ([row(100, others=0.4), row(90, others=None)], "", [ONCE]),
        ([row(100, 90, 101)], "", ["Repetitions differ by up to 11 %."]),
        ([row(100, 50, 101)], UNSTEADY, ["Repetitions differ by up to 51 %"]),
        ([row(100, 100, 0)], UNSTEADY, ["Repetitions differ by up to 100 %"]),
        (
            [row(100), row(100, 50, 101, others=0.5)],
            "Other programs ran during the measurement, so it is uncertain",
            ["Other programs kept up to 0.500 of 4", "Repetitions differ by up to 51 %"],
        ),
    ],
)
def test_noise_is_reported_and_prevents_a_verdict(rows, doubt, starts):
    noise = NoiseCheck(rows=rows, cores=4)
    assert noise.doubt == doubt
    sentences = noise.sentences("Repetitions")
    assert [text[: len(start)] for text, start in zip(sentences, starts, strict=True)] == starts


STEPS = tuple(np.random.default_rng(0).normal(10, 1, 60))
CHANCE = "A row that is less than {} another can be so by chance."
FASTER = CHANCE.format("4.1 % faster than")
SIDES = ((100.0, 103.0, 99.0), (110.0, 108.0, 111.0))


def test_the_spread_equals_that_of_a_comparison():
    def figure(value):
        estimate = BootstrapEstimate(value=value, deviations=None)
        return {"a": Figure(name="a", unit="ms", estimate=estimate)}

    [expected] = differences(*([figure(value) for value in side] for side in SIDES))
    spread = RepeatSpread.of([row(*side) for side in SIDES])
    assert (spread.between, spread.within, spread.least) == (expected.between, None, expected.least)
    assert RepeatSpread.model_validate_json(spread.model_dump_json()) == spread


@pytest.mark.parametrize(
    ("rows", "sentences"),
    [
        ([row(*side) for side in SIDES], [FASTER]),
        ([row(*SIDES[0])], []),
        (
            [row(*SIDES[0], steps=STEPS), row(*SIDES[1])],
            ["The rate of one repetition is known to within 1.6 %.", FASTER],
        ),
        ([row(10, 20, 30), row(10, 30, 20)], [CHANCE.format("3.5 times as fast as")]),
    ],
    ids=["two rows", "one row", "known steps", "a large spread"],
)
def test_the_spread_reports_the_smallest_detectable_difference(rows, sentences):
    assert [*RepeatSpread.of(rows).sentences()] == sentences


def test_rows_of_fewer_repetitions_show_only_larger_differences():
    """Rows without repetitions get the spread of the repeated rows."""
    equal = RepeatSpread.of([row(*SIDES[0]), row(*SIDES[1])])
    fewer = RepeatSpread.of([row(*SIDES[0]), row(*SIDES[1]), row(100), row(90)])
    assert fewer.between == equal.between
    assert fewer.least[0] < equal.least[0] < 0 < equal.least[1] < fewer.least[1]
    assert np.log1p(fewer.least[1]) == pytest.approx(np.log1p(equal.least[1]) * 3**0.5)


@pytest.mark.parametrize(
    "rows", [[], [row(100), row(90)], [row(100, 0)], ["no row"]], ids=["none", "once", "0", "other"]
)
def test_without_repeats_or_with_a_rate_of_0_no_spread_is_known(rows):
    assert RepeatSpread.of(rows) is None


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        (None, ""),
        (0.05, ""),
        (0.06, "CPU time instead of wall time, because other programs used 6 % of the CPU time"),
        (3.0, "CPU time instead of wall time, because other programs used 75 % of the CPU time"),
    ],
)
def test_cpu_time_replaces_wall_time_on_a_busy_machine(others, reason):
    assert NoiseCheck(rows=[row(100, others=others)], cores=4).cpu_time_reason == reason


def test_rows_within_the_spread_of_one_row_are_ties():
    rows = [row(26.3, 25.9, 27.0), row(29.4, 28.7, 30.2), row(32.3, 30.2, 34.5)]
    assert interleaved.as_fast(rows) == rows[1:], "one differs by 13 %, the others are 9 % apart"


def test_rows_within_five_percent_of_the_fastest_are_ties():
    rows = [row(94), row(95), row(100), row(100)]
    assert interleaved.fastest(rows) is rows[2]
    assert interleaved.as_fast(rows) == rows[1:]
