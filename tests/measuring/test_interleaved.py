"""Repetitions are interleaved, the warm-up does not count, and figures say how noisy they are."""

import numpy as np
import pytest

from headrace.measuring import interleaved
from headrace.measuring.interleaved import NoiseCheck, RepeatSpread, Repetition, cores_of_others
from headrace.profiling.comparison.comparison import differences
from headrace.profiling.comparison.estimate import BootstrapEstimate
from headrace.profiling.comparison.figures import Figure
from headrace.testing.fake_clock import FakeClock


class Timed(Repetition):
    """A second of work."""

    work: float
    steps: tuple[float, ...] = ()

    @property
    def rate(self):
        return self.work

    @property
    def step_times(self):
        return self.steps


def row(*rates, others=0.0, steps=()):
    """Return something that was timed once for each rate, beside programs on so many cores."""
    took = {"seconds": 1, "cpu_seconds": 1, "others_cpu_seconds": others}
    return interleaved.RepetitionRow(
        repetitions=[Timed(work=rate, steps=steps, **took) for rate in rates]
    )


def turns(*others):
    """Return repetitions of 2 s, beside programs that took so many seconds."""
    return [Repetition(seconds=2, cpu_seconds=1, others_cpu_seconds=each) for each in others]


def test_contenders_take_turns_and_the_warm_up_goes_first_uncounted():
    seen, taken = [], []
    found = interleaved.interleave(
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
    # Without a warm-up, every turn counts.
    assert interleaved.interleave([0, 1], lambda each: each, repeats=2) == (0, 1, 0, 1)


def test_a_stopwatch_tells_wall_and_processor_time():
    clock = FakeClock()
    watch = interleaved.Stopwatch(clock)
    clock.advance(2)
    assert watch.seconds == 2
    sum(range(3_000_000))
    taken = watch.stop(1.5)
    assert taken.seconds == 1.5
    assert taken.cpu_seconds > 0
    assert taken.others_cpu_seconds >= 0


def test_a_spread_is_what_turns_differ_by():
    spread = interleaved.MedianRange.of([4.0, 2.0, 5.0])
    assert (spread.median, spread.lowest, spread.highest, spread.share) == (4, 2, 5, 0.75)


def test_what_others_took_and_its_share_of_the_cpu_time_are_known_where_a_turn_told():
    assert cores_of_others(turns(1, 3, None)) == 1
    assert interleaved.others_cpu_share(turns(1, 2, None)) == 0.6
    assert cores_of_others(turns(None)) is interleaved.others_cpu_share(turns(None)) is None


ONCE, VARY = "Each row was measured once: no difference was tested.", "Rates of a row vary by "


@pytest.mark.parametrize(
    ("rows", "doubt", "said"),
    [
        ([row(100)], "", [ONCE]),
        ([row(100, 97, 101)], "", [VARY]),
        ([row(100, others=0.4), row(90, others=None)], "", [ONCE]),
        ([row(100, 90, 101)], "", ["Repetitions differ by up to 11 %.", VARY]),
        ([row(100, 50, 101)], "Too unsteady to say", ["Repetitions differ by up to 51 %", VARY]),
        ([row(100, 100, 0)], "Too unsteady to say", ["Repetitions differ by up to 100 %"]),
        (
            [row(100), row(100, 50, 101, others=0.5)],
            "Other programs ran meanwhile, so it is uncertain",
            ["Other programs kept up to 0.500 of 4", "Repetitions differ by up to 51 %", VARY],
        ),
    ],
)
def test_what_speaks_against_figures_is_said_and_leaves_no_verdict(rows, doubt, said):
    trust = NoiseCheck(rows=rows, cores=4)
    assert trust.doubt == doubt
    told = trust.sentences("Repetitions")
    assert [sentence[: len(start)] for sentence, start in zip(told, said, strict=True)] == said


STEPS = tuple(np.random.default_rng(0).normal(10, 1, 60))
SIDES = ((100.0, 103.0, 99.0), (110.0, 108.0, 111.0))


def test_repetitions_spread_as_the_repeats_of_a_comparison_do():
    def figure(value):
        estimate = BootstrapEstimate(value=value, deviations=None)
        return {"a": Figure(name="a", unit="ms", estimate=estimate)}

    [expected] = differences(*([figure(value) for value in side] for side in SIDES))
    found = RepeatSpread.of([row(*side) for side in SIDES])
    assert (found.between, found.within, found.least) == (expected.between, None, expected.least)
    assert RepeatSpread.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [row(*side) for side in SIDES],
            "Rates of a row vary by 1.8 % from repetition to repetition. Between two rows, a drop "
            "of less than 3.9 %, or a rise of less than 4.1 %, would not have been shown.",
        ),
        ([row(*SIDES[0])], "Rates of a row vary by 2.1 % from repetition to repetition."),
        (
            [row(*SIDES[0], steps=STEPS), row(*SIDES[1])],
            "Rates of a row vary by 1.8 % from repetition to repetition. The rate of one "
            "repetition is known to within 1.6 %. Between two rows, a drop of less than 3.9 %, or "
            "a rise of less than 4.1 %, would not have been shown.",
        ),
    ],
    ids=["two rows", "one row", "steps are known"],
)
def test_a_spread_says_what_would_have_been_shown(rows, said):
    assert RepeatSpread.of(rows).words == said


def test_rows_of_fewer_repetitions_show_only_larger_differences():
    """The spread of a row that was repeated is that of the others, too."""
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
        (0.06, "CPU time in place of wall time: other programs used 6 % of the CPU time"),
        (3.0, "CPU time in place of wall time: other programs used 75 % of the CPU time"),
    ],
)
def test_cpu_time_takes_the_place_of_wall_time_on_a_busy_machine(others, reason):
    assert NoiseCheck(rows=[row(100, others=others)], cores=4).cpu_time_reason == reason


def test_rows_as_close_as_the_turns_of_one_differ_are_as_fast():
    rows = [row(26.3, 25.9, 27.0), row(29.4, 28.7, 30.2), row(32.3, 30.2, 34.5)]
    assert interleaved.as_fast(rows) == rows[1:], "one differs by 13 %, the others are 9 % apart"


def test_rows_within_five_percent_of_the_fastest_are_as_fast():
    rows = [row(94), row(95), row(100), row(100)]
    assert interleaved.fastest(rows) is rows[2]
    assert interleaved.as_fast(rows) == rows[1:]
