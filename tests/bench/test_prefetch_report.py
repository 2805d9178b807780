"""How deep to prefetch and what pinned memory brings, in words and charts."""

import pytest

from headrace.bench.prefetch import PREFETCH
from headrace.bench.prefetch_record import PrefetchRecord, PrefetchTurn, rows_of
from headrace.profiling.machine import provenance
from headrace.report.experiment import render_experiment, render_experiment_text


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
    made = provenance({}, ("headrace", "bench", "prefetch"))
    machine = made.machine.model_copy(update={"usable_cores": 4})
    return PrefetchRecord(
        provenance=made.model_copy(update={"machine": machine}),
        workers=2,
        batch_frames=100,
        batch_bytes=20_000_000,
        load_ms=400,
        step_ms=500,
        turns=turns,
    )


def found(*turns):
    return PREFETCH.page(recorded(*turns)).findings


USUAL = (turn(1, 8), turn(2, 6), turn(4, 5), turn(8, 5))


def test_rows_are_medians_and_jitter_is_the_standard_deviation_of_intervals():
    rows = rows_of(recorded(turn(2, 6), turn(1, 8), turn(2, 4), turn(2, 5, waits=(9.0,) * 80)))
    assert [row.prefetch_factor for row in rows] == [1, 2]
    assert (rows[1].rate.median, rows[1].rate.lowest) == (200, pytest.approx(166.7, abs=0.1))
    assert rows[1].jitter_ms == 5
    assert rows[1].wait_ms == pytest.approx(8.2)
    assert (rows[0].wait_p95_ms, rows[1].wait_p95_ms) == (None, 9)
    assert rows[1].copy_ms is None


def test_the_smallest_depth_that_is_as_good_is_advised_with_what_it_gains_on_the_default():
    depth, _ = found(*USUAL)
    assert depth.headline == "Saturates at prefetch_factor=4: 200 frames/s"
    assert depth.change == (
        "prefetch_factor=4: 1.60 times the 125 frames/s with prefetch_factor=1; more only holds "
        "more batches in memory."
    )
    assert depth.advice.gain == pytest.approx(1.2)
    assert depth.advice.rests_on == "200 frames/s, 167 frames/s with 2, which is its default"


def test_without_the_default_among_them_no_gain_on_it_is_told():
    depth, _ = found(turn(1, 8), turn(4, 5))
    assert depth.advice.gain is None


def test_what_depth_cannot_do_and_what_it_takes_are_said():
    evidence = " ".join(found(*USUAL)[0].evidence)
    assert "2 workers alone make one every 400 ms: about 200 frames/s are possible" in evidence
    assert "it makes none faster" in evidence
    assert "batches of 20.0 MB are made ahead: 160 MB with prefetch_factor=4" in evidence
    assert "is 8.00 ms with prefetch_factor=1 and 5.00 ms with 4" in evidence


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ((turn(1, 5), turn(2, 5)), "Saturates at prefetch_factor=1: 200 frames/s"),
        ((turn(1, 8), turn(2, 5)), "No saturation up to prefetch_factor=2: 200 frames/s, 62 % of"),
        ((turn(2, 5),), "200 frames/s with prefetch_factor=2"),
        ((turn(1, 5), turn(1, 9), turn(2, 5)), "Too unsteady to say where it saturates"),
        ((turn(1, 8, others=1.0), turn(2, 5)), "Other programs ran meanwhile, so it is uncertain"),
    ],
)
def test_the_headline_says_what_the_figures_say(turns, said):
    assert found(*turns)[0].headline.startswith(said)


def test_in_doubt_and_with_one_depth_there_is_no_advice():
    assert found(turn(1, 5), turn(1, 9), turn(2, 5))[0].advice is None
    assert found(turn(2, 5))[0].advice is None


def test_without_a_gpu_pinned_memory_is_explained_and_not_judged():
    _, pinning = found(*USUAL)
    assert pinning.headline == "pin_memory was not measured: without a GPU it does nothing"
    assert (pinning.change, pinning.advice) == (None, None)
    assert any("page-locked" in line for line in pinning.evidence)


def copied(factor, seconds, ms, *, is_pinned):
    return turn(factor, seconds, is_pinned=is_pinned, copies=(ms,) * 10)


@pytest.mark.parametrize(
    ("seconds", "headline", "gain"),
    [
        (4.0, "With pin_memory the loop is 1.2 times as fast: 250 frames/s, 200 without it", 1.25),
        (5.1, "pin_memory makes no difference to the rate: 196 frames/s, 200 without it", None),
        (8.0, "With pin_memory the loop is 0.62 times as fast: 125 frames/s, 200", None),
    ],
)
def test_on_a_gpu_pinned_memory_is_judged_at_the_same_depth(seconds, headline, gain):
    _, pinning = found(
        copied(1, 8, 2.0, is_pinned=False),
        copied(2, 5, 2.0, is_pinned=False),
        copied(1, 1, 0.1, is_pinned=True),
        copied(2, seconds, 0.1, is_pinned=True),
    )
    assert pinning.headline.startswith(headline)
    assert (pinning.advice and pinning.advice.gain) == gain
    assert "holds the loop up for 0.100 ms from pinned memory" in pinning.evidence[0]
    assert "2.00 ms from other" in pinning.evidence[0]


def test_in_doubt_pinned_memory_is_not_judged_either():
    _, pinning = found(
        copied(2, 5, 2.0, is_pinned=False),
        copied(2, 4, 0.1, is_pinned=True),
        copied(2, 9, 0.1, is_pinned=True),
    )
    assert pinning.headline.startswith("Too unsteady to say what pin_memory brings")
    assert pinning.advice is None


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


def test_the_text_is_rows_and_answers():
    assert render_experiment_text(PREFETCH.page(recorded(*USUAL))) == TEXT


TEXT = """\
Frames per second by prefetch_factor: batches of 100 frames, 2 workers

  prefetch  pinned  frames/s  slowest  fastest  jitter ms  wait ms       p95 ms  copy ms   MB
         1      no       125      125      125       8.00     5.00  n too small        -  200
         2      no       167      167      167       6.00     5.00  n too small        -  200
         4      no       200      200      200       5.00     5.00  n too small        -  200
         8      no       200      200      200       5.00     5.00  n too small        -  200

Saturates at prefetch_factor=4: 200 frames/s
  - Saturation is the smallest depth within 5 % of the best, which is 200 frames/s with
    prefetch_factor=4.
  - That is 1.60 times the 125 frames/s with prefetch_factor=1.
  - The loop is busy 500 ms with a batch, and 2 workers alone make one every 400 ms: about 200
    frames/s are possible at best. Depth evens out batches that take longer than others; it makes
    none faster.
  - Latency jitter (std of the intervals between batches) is 8.00 ms with prefetch_factor=1 and 5.00
    ms with 4; a batch is waited for 5.00 ms and 5.00 ms in the mean.
  - prefetch_factor × num_workers batches of 20.0 MB are made ahead: 160 MB with prefetch_factor=4.
  Try next: prefetch_factor=4: 1.60 times the 125 frames/s with prefetch_factor=1; more only holds
    more batches in memory.

pin_memory was not measured: without a GPU it does nothing
  - PyTorch warns and ignores it then.
  - Pinned memory is page-locked: a GPU copies from it by itself, so that batch.to('cuda',
    non_blocking=True) returns at once and the copy overlaps with what the GPU computes; from other
    memory the loop waits until the batch is copied.
  - It costs one more copy in main memory, which a thread of the DataLoader makes, and memory that
    the system can neither move nor swap out.
"""


def test_an_old_record_gives_the_same_page_again():
    record = recorded(*USUAL)
    again = PrefetchRecord.model_validate_json(record.model_dump_json())
    assert render_experiment(PREFETCH.page(again)) == render_experiment(PREFETCH.page(record))
