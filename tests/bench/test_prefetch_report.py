"""How deep to prefetch and what pinned memory brings, in words and charts."""

import pytest

from bench.shown import check_shown, made
from headrace.bench.prefetch import PREFETCH
from headrace.bench.prefetch_record import PrefetchRecord, PrefetchTurn, rows_of


def turn(factor, seconds, *, is_pinned=False, waits=(5.0,) * 10, copies=(), others=0.0):
    """A turn of 1000 frames in 10 batches, that are done now earlier, now later."""
    return PrefetchTurn(
        prefetch_factor=factor,
        is_pinned=is_pinned,
        seconds=seconds,
        cpu_seconds=seconds,
        others_cpu_seconds=others * seconds,
        frames=1000,
        intervals_ms=(100.0 - seconds, 100.0 + seconds) * 5,
        waits_ms=waits,
        copies_ms=copies,
        memory_bytes=200_000_000,
    )


def recorded(*turns):
    return PrefetchRecord(
        provenance=made(),
        workers=2,
        batch_frames=100,
        batch_bytes=20_000_000,
        load_ms=400,
        step_ms=500,
        turns=turns,
    )


USUAL = (turn(1, 8), turn(2, 6), turn(4, 5), turn(8, 5))


def test_rows_are_medians_and_jitter_is_the_standard_deviation_of_intervals():
    rows = rows_of(recorded(turn(2, 6), turn(1, 8), turn(2, 4), turn(2, 5, waits=(9.0,) * 80)))
    assert [row.prefetch_factor for row in rows] == [1, 2]
    assert (rows[1].rate.median, rows[1].rate.lowest) == (200, pytest.approx(166.7, abs=0.1))
    assert rows[1].jitter_ms == 5
    assert rows[1].wait_ms == pytest.approx(8.2)
    assert (rows[0].wait_p95_ms, rows[1].wait_p95_ms) == (None, 9)
    assert rows[1].copy_ms is None


def copied(factor, seconds, ms, *, is_pinned):
    return turn(factor, seconds, is_pinned=is_pinned, copies=(ms,) * 10)


def on_gpu(seconds):
    """Pinned memory with which the loop takes `seconds`, beside 5 s without."""
    return recorded(
        *(copied(factor, took, 2.0, is_pinned=False) for factor, took in ((1, 8), (2, 5))),
        *(copied(factor, took, 0.1, is_pinned=True) for factor, took in ((1, 1), (2, seconds))),
    )


def test_depth_and_pinned_memory_are_judged_like_this():
    pinned = [copied(2, seconds, 0.1, is_pinned=True) for seconds in (4, 9)]
    cases = {
        "saturates": recorded(*USUAL),
        "without the default": recorded(turn(1, 8), turn(4, 5)),
        "the first is enough": recorded(turn(1, 5), turn(2, 5)),
        "no saturation": recorded(turn(1, 8), turn(2, 5)),
        "one depth": recorded(turn(2, 5)),
        "turns differ": recorded(turn(1, 5), turn(1, 9), turn(2, 5)),
        "other programs ran": recorded(turn(1, 8, others=1.0), turn(2, 5)),
        "pinned is faster": on_gpu(4.0),
        "pinned is as fast": on_gpu(5.1),
        "pinned is slower": on_gpu(8.0),
        "turns of pinned memory differ": recorded(copied(2, 5, 2.0, is_pinned=False), *pinned),
    }
    check_shown(PREFETCH, cases)


def test_the_charts_show_both_kinds_of_memory():
    rates, waits = PREFETCH.page(
        recorded(*USUAL, *(copied(k, 4, 0.1, is_pinned=True) for k in (1, 2)))
    ).charts
    assert [trace.name for trace in rates.figure.data] == [
        *("median", "95 % of the best", "saturation: prefetch_factor=4", "pinned"),
    ]
    assert list(rates.figure.data[3].x) == [1, 2]
    names = ["jitter", "mean wait", "jitter, pinned", "mean wait, pinned"]
    assert [trace.name for trace in waits.figure.data] == names
    assert list(waits.figure.data[0].y) == [8, 6, 5, 5]
