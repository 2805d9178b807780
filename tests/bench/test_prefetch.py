"""Prefetch benchmark: a training loop on real workers, and findings on its depth."""

from contextlib import closing
from pathlib import Path

import pytest

from bench.clocks import TickingClock
from bench.records import local_provenance, timing
from headrace.bench.benchmark import Context
from headrace.bench.prefetch import (
    PREFETCH,
    PrefetchConfig,
    PrefetchLoop,
    PrefetchRecord,
    PrefetchRepetition,
)
from headrace.errors import ConfigError, StageError
from headrace.testing.fake_clock import FakeClock

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


SMALL = {"clip_len": 3, "stride": 1, "size": (16, 16), "batch_size": 2}


@pytest.fixture
def looping(videos, store):
    """Return a function: batches per repetition, options -> loop on a clock that stands still."""

    def loop(batches, **options):
        config = PrefetchConfig(videos=videos, **{**SMALL, **options})
        return closing(PrefetchLoop(config, batches, Context(store=store, clock=FakeClock())))

    return loop


@pytest.mark.parametrize("factor", [1, 4])
def test_a_repetition_times_each_batch(looping, factor):
    """The clock stands still during waits, so only the steps take time."""
    with looping(5, prefetch_factor=(1, 4)) as loop:
        turn = loop.take(factor, step_ms=40)
    assert (turn.prefetch_factor, turn.is_pinned, turn.frames) == (factor, False, 5 * 2 * 3)
    assert turn.intervals_ms == (40,) * 5
    assert turn.waits_ms == (0,) * 5
    assert turn.copies_ms == ()
    assert turn.seconds == pytest.approx(0.2)
    assert turn.memory_bytes > 10**6


def test_every_setting_is_repeated_with_the_given_step_time(measure, videos):
    options = {"prefetch_factor": (4, 1), "step_ms": 100.0, "seconds": 1.0, "repeats": 2}
    record = measure(PREFETCH, Context(clock=TickingClock(1e-6)), videos=videos, **SMALL, **options)
    assert [turn.prefetch_factor for turn in record.turns] == [1, 4, 1, 4]
    assert {len(turn.waits_ms) for turn in record.turns} == {12}, "the minimum"
    assert record.step_ms == 100
    assert (record.batch_frames, record.batch_bytes) == (6, 6 * 16 * 16 * 3)
    assert record.provenance.configuration["prefetch_factor"] == "4,1"


def test_a_video_shorter_than_a_clip_restarts_or_is_refused(looping):
    with looping(1, clip_len=40) as loop:
        turn = loop.take(2, step_ms=1)
    assert turn.frames == 2 * 40
    with pytest.raises(ConfigError, match="the video has 24: 24 are possible"):
        looping(1, clip_len=99, boundary="error")


def test_a_failed_worker_is_reported_in_one_line(looping, videos):
    with looping(2) as loop:
        Path(videos[1]).unlink()
        with pytest.raises(StageError, match=r"a DataLoader worker failed: .*1\.mp4") as caught:
            loop.take(2, step_ms=0)
    assert "\n" not in str(caught.value)


def turn(factor, seconds, *, is_pinned=False, waits=(5.0,) * 10, copies=(), others=0.0):
    """Return a repetition of 1000 frames in 10 batches, alternately early and late."""
    return PrefetchRepetition(
        prefetch_factor=factor,
        is_pinned=is_pinned,
        intervals_ms=(100.0 - seconds, 100.0 + seconds) * 5,
        waits_ms=waits,
        copies_ms=copies,
        **timing(seconds, others=others) | {"frames": 1000, "memory_bytes": 200_000_000},
    )


def recorded(*turns):
    facts = {"workers": 2, "batch_frames": 100, "batch_bytes": 20_000_000}
    return PrefetchRecord(
        provenance=local_provenance(), turns=turns, load_ms=400, step_ms=500, **facts
    )


USUAL = (turn(1, 8), turn(2, 6), turn(4, 5), turn(8, 5))


def test_rows_are_medians_and_jitter_is_the_standard_deviation_of_intervals():
    record = recorded(turn(2, 6), turn(1, 8), turn(2, 4), turn(2, 5, waits=(9.0,) * 80))
    first, second = PREFETCH.rows(record)
    assert (first.factor, second.factor) == (1, 2)
    assert (second.rate.median, second.rate.lowest) == (200, pytest.approx(166.7, abs=0.1))
    assert second.jitter_ms == 5
    assert second.waits.mean == pytest.approx(8.2)
    assert (first.waits.p95, second.waits.p95) == (None, 9)
    assert second.copy_ms is None


def copied(factor, seconds, ms, *, is_pinned):
    return turn(factor, seconds, is_pinned=is_pinned, copies=(ms,) * 10)


def on_gpu(seconds):
    """Return a record of a loop of `seconds` with pinned memory, and 5 s without."""
    return recorded(
        *(copied(factor, duration, 2.0, is_pinned=False) for factor, duration in ((1, 8), (2, 5))),
        *(
            copied(factor, duration, 0.1, is_pinned=True)
            for factor, duration in ((1, 1), (2, seconds))
        ),
    )


def test_findings_on_depth_and_pinned_memory(check_pages):
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
    check_pages(PREFETCH, cases)


def test_the_charts_show_both_kinds_of_memory():
    rates, waits = PREFETCH.page(
        recorded(*USUAL, *(copied(k, 4, 0.1, is_pinned=True) for k in (1, 2)))
    ).charts
    assert [trace.name for trace in rates.figure.data] == [
        *("median", "saturation: prefetch_factor=4", "pinned", "95 % of the best")
    ]
    assert list(rates.figure.data[2].x) == [1, 2]
    names = ["jitter", "mean wait", "jitter, pinned", "mean wait, pinned"]
    assert [trace.name for trace in waits.figure.data] == names
    assert list(waits.figure.data[0].y) == [8, 6, 5, 5]
