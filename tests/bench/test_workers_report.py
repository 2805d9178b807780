"""Where throughput saturates, in words, and the rows and the chart beside them."""

from datetime import UTC, datetime

import pytest

from headrace.bench.workers import WORKERS, Epoch, WorkersRecord, rows_of
from headrace.measuring.interleaved import Spread
from headrace.profiling.provenance import Provenance
from headrace.report.experiment import render_experiment_text
from report.recorded import MACHINE

PROVENANCE = Provenance(
    headrace="0.1.0",
    created=datetime(2026, 11, 1, 12, tzinfo=UTC),
    command=("headrace", "bench", "workers", "a.mp4"),
    configuration={"batch_size": 4},
    machine=MACHINE,
    versions={"torch": "2.15.0"},
)


def recorded(seconds_by_workers, others=0.0):
    """Return a record of epochs of 1000 frames that took so many seconds."""
    epochs = [
        Epoch(
            workers=workers,
            seconds=seconds,
            first_batch_seconds=seconds / 10,
            cpu_seconds=1.5 * seconds,
            others_cpu_seconds=others * seconds,
            frames=1000,
            memory_bytes=200_000_000 * (workers + 1),
            decoded=2500,
            seeks=60,
            opens=50,
            bytes_read=4_000_000,
        )
        for workers, times in seconds_by_workers.items()
        for seconds in times
    ]
    return WorkersRecord(
        provenance=PROVENANCE, videos=5, clips=50, frames=1000, epochs=tuple(epochs)
    )


USUAL = {0: [10, 10.2, 9.9], 1: [10], 2: [5.1, 5.0, 5.2], 4: [5.0], 8: [5.5]}


def test_rows_are_medians_in_order_of_workers():
    rows = rows_of(recorded({2: [4, 5, 20], 0: [10]}))
    assert [row.workers for row in rows] == [0, 2]
    assert rows[1].rate == Spread(median=200, lowest=50, highest=250)
    assert rows[1].clips_per_second == 10
    assert rows[1].first_batch_seconds == 0.5
    assert rows[1].cores == 1.5
    assert rows[1].memory_bytes == 600_000_000
    assert (rows[1].decoded, rows[1].seeks, rows[1].opens) == (2.5, 0.06, 0.05)
    assert rows[1].bytes_read == 4000


@pytest.mark.parametrize(
    ("seconds", "workers"),
    [
        (USUAL, 2),
        ({0: [10], 1: [10 / 0.96], 2: [11]}, 1),
        ({1: [10], 2: [9.4], 4: [5]}, 4),
        ({1: [10], 2: [1 / 0.94], 4: [1]}, 4),
        ({1: [10], 2: [1 / 0.96], 4: [1]}, 2),
    ],
)
def test_it_saturates_at_the_fewest_workers_within_five_percent_of_the_best(seconds, workers):
    [chart] = WORKERS.charts(rows_of(recorded(seconds)))
    assert list(chart.figure.data[2].x) == [workers]


def headline(seconds):
    [finding] = WORKERS.page(recorded(seconds)).findings
    return finding.headline, finding.change


def test_the_verdict_names_the_point_and_what_to_set():
    said, change = headline(USUAL)
    assert said == "Saturates at 2 workers: 196 frames/s"
    assert change == (
        "num_workers=2: 1.96 times the 100 frames/s with 0 workers; more only take memory and time "
        "to start."
    )


def test_the_advice_is_the_gain_on_the_first_row():
    [finding] = WORKERS.page(recorded(USUAL)).findings
    assert finding.advice.words == "num_workers=2"
    assert finding.advice.gain == pytest.approx(10 / 5.1)
    assert finding.advice.rests_on == "196 frames/s against 100 frames/s with 0 workers"
    for measured, others in (({1: [5], 2: [5]}, 0.0), (USUAL, 1.5)):
        [finding] = WORKERS.page(recorded(measured, others=others)).findings
        assert finding.advice is None, "the first is enough, or nothing is certain"


def test_where_the_most_workers_are_the_best_there_is_no_saturation():
    said, change = headline({1: [10], 2: [5]})
    assert said == "No saturation up to 2 workers: 200 frames/s, 50 % of it with 1 worker"
    assert change == (
        "num_workers=2: 2.00 times the 100 frames/s with 1 worker. What more gains is not known: "
        "--workers with a larger number tells."
    )


def test_where_the_fewest_are_enough_no_gain_is_named():
    assert headline({1: [5], 2: [5]})[1] == (
        "num_workers=1; more only take memory and time to start."
    )


def test_no_workers_are_never_advised_as_they_would_not_decode_beside_the_training():
    [finding] = WORKERS.page(recorded({0: [5], 1: [10], 2: [9.9]})).findings
    assert finding.headline == "Saturates at 1 worker: 100 frames/s"
    assert finding.change.startswith("num_workers=1")
    assert any(line.startswith("0 workers are no candidate") for line in finding.evidence)


def test_other_programs_that_took_the_processor_are_told_and_leave_no_verdict():
    """Of 8 cores, one and a half is more than a tenth."""
    [finding] = WORKERS.page(recorded(USUAL, others=1.5)).findings
    assert finding.headline == (
        "Other programs ran meanwhile, so it is uncertain where it saturates; by the rule at "
        "2 workers"
    )
    assert "Other programs kept up to 1.50 of 8 usable cores busy" in finding.evidence[-1]
    assert finding.change.startswith("The same again with nothing else running")
    assert headline(USUAL)[0] == "Saturates at 2 workers: 196 frames/s"


def test_one_number_of_workers_shows_no_saturation():
    assert headline({4: [5]}) == ("200 frames/s with 4 workers", None)


def test_a_machine_that_was_busy_with_something_else_gives_no_verdict():
    said, change = headline({0: [10], 1: [5, 10, 5], 2: [5]})
    assert said == "Too unsteady to say where it saturates; by the rule at 1 worker"
    assert "nothing else running" in change


def test_the_text_is_rows_and_verdict():
    assert render_experiment_text(WORKERS.page(recorded(USUAL))) == TEXT


TEXT = """\
Frames per second by num_workers: 50 clips of 5 videos

  workers  frames/s  slowest  fastest  clips/s  first batch    CPU     MB  decoded  seeks  opens  kB read
        0       100     98.0      101     5.00        1.0 s  150 %    200     2.50  0.060  0.050     4.00
        1       100      100      100     5.00        1.0 s  150 %    400     2.50  0.060  0.050     4.00
        2       196      192      200     9.80       0.51 s  150 %    600     2.50  0.060  0.050     4.00
        4       200      200      200     10.0        0.5 s  150 %  1,000     2.50  0.060  0.050     4.00
        8       182      182      182     9.09       0.55 s  150 %  1,800     2.50  0.060  0.050     4.00

Saturates at 2 workers: 196 frames/s
  - Saturation is the fewest workers within 5 % of the best, which is 200 frames/s with 4 workers.
  - That is 1.96 times the 100 frames/s with 0 workers.
  - 0 workers are no candidate: they decode while nobody trains, not beside it.
  - 2 workers: processors busy 150 % of one core, 8 cores usable.
  Try next: num_workers=2: 1.96 times the 100 frames/s with 0 workers; more only take memory and
    time to start.
"""  # noqa: E501


def test_the_chart_shows_every_row_and_rings_the_point():
    [chart] = WORKERS.page(recorded(USUAL)).charts
    line, enough, mark = chart.figure.data
    assert list(line.x) == [0, 1, 2, 4, 8]
    assert [round(rate) for rate in line.y] == [100, 100, 196, 200, 182]
    assert list(enough.y) == [190, 190]
    assert (list(mark.x), mark.name) == ([2], "saturation: 2 workers")
