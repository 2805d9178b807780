"""What limits the fastest row, by the rule and in words; the rows and the chart beside it."""

from bench.sampling_records import (
    AHEAD,
    BASELINE,
    BURSTS,
    IMPOSSIBLE,
    NAIVE,
    QUARTER,
    recorded,
    turns,
)
from bench.shown import check_shown
from headrace.bench.sampling_report import SAMPLING, rows_of
from headrace.measuring.interleaved import Spread

USUAL = (
    turns("baseline", [500, 510, 490], decoded=15.5, opens=500),
    turns("look-ahead", [5000, 4900, 5100], decoded=0.7, bytes_read=15_000_000),
    turns("bursts", [2500, 2500, 2500], decoded=2.5, is_filled=False),
)


def test_rows_are_medians_and_counts_for_each_frame():
    baseline, ahead, bursts = rows_of(recorded(*USUAL))
    assert (baseline.rate.median, baseline.times) == (50, 1)
    assert ahead.rate == Spread(median=500, lowest=490, highest=510)
    assert (ahead.times, ahead.decoded, ahead.seeks, ahead.cpu_ms) == (10, 0.7, 0.25, 4)
    assert (ahead.frames, ahead.held_bytes, ahead.cores) == (15_000, 50_000_000, 2)
    assert (baseline.opens, baseline.bytes_read, ahead.bytes_read) == (1, 0, 3000)
    assert ahead.is_filled
    assert not bursts.is_filled


BASE = turns("baseline", [500])


def beside_baseline(*frames, base=BASE, usable=2, **options):
    return recorded(base, turns("look-ahead", frames, **options), usable=usable)


def memory(naive, quarter, full, **options):
    """Three amounts of memory by frames in 10 s; bursts are faster, but draw other frames."""
    return recorded(
        BASE,
        turns("naive", naive, **options),
        turns("quarter", quarter),
        turns("look-ahead", full, decoded=0.8),
        turns("bursts", [9000]),
        strategies=(BASELINE, NAIVE, AHEAD, QUARTER, BURSTS),
    )


def test_what_limits_the_fastest_and_where_memory_saturates_is_told_like_this():
    ahead, unsteady = turns("look-ahead", [5000]), turns("bursts", [1000, 2000])
    busy_base = turns("baseline", [500], others=0.5)
    cases = {
        "four strategies": recorded(*USUAL, strategies=(BASELINE, AHEAD, IMPOSSIBLE, BURSTS)),
        "bound by decoding": beside_baseline(5000),
        "bound by decoding in vain": beside_baseline(5000, cores=1.81, decoded=3),
        "bound by two workers": beside_baseline(5000, cores=1.95, usable=8),
        "other programs ran": beside_baseline(5000, cores=1.0, others=0.9),
        "other programs beside the baseline": beside_baseline(5000, base=busy_base),
        "processors had time to spare": beside_baseline(5000, cores=1.0, others=0.1),
        "a turn too short for the clock of processors": beside_baseline(5000, cores=0.0),
        "too short, and other programs ran": beside_baseline(5000, cores=0.0, others=0.9),
        "turns differ": beside_baseline(5000, 3000),
        "turns of one in between differ": recorded(BASE, ahead, unsteady),
        "as fast within five percent": recorded(BASE, ahead, turns("bursts", [4800])),
        "slower than the baseline": beside_baseline(300),
        "the baseline alone": recorded(BASE),
        "a quarter of the memory is enough": memory([500], [4800], [5000]),
        "no memory is enough": memory([4800], [4700], [5000]),
        "all the memory is needed": memory([500], [4700], [5000]),
        "memory while other programs ran": memory([500], [4800], [5000], others=0.5),
        "memory by turns that differ": memory([500, 1000], [4800], [5000]),
        "a window that was still filling": memory([500], [4800], [5000], is_filled=False),
    }
    check_shown(SAMPLING, cases)


def test_the_chart_shows_from_where_memory_is_enough():
    record = memory([500], [4800], [5000])
    [chart] = SAMPLING.page(record).charts
    _, _, enough = chart.figure.data
    assert list(enough.x) == [475, 475]
    assert list(enough.y) == ["bursts of 8", "baseline"]


def test_the_reading_explains_the_star_only_where_there_is_one():
    filling = SAMPLING.page(recorded(*USUAL)).table.reading
    assert "at most 6 times the measured time (* is still warming up)" in filling
    assert "(*" not in SAMPLING.page(recorded(*USUAL[:2])).table.reading
