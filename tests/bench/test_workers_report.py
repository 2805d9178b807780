"""Where throughput saturates, in words, and the rows and the chart beside them."""

import pytest

from bench.shown import check_shown, made
from headrace.bench.workers import WORKERS, Epoch, WorkersRecord, rows_of
from headrace.measuring.interleaved import Spread


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
        provenance=made(cores=8), videos=5, clips=50, frames=1000, epochs=tuple(epochs)
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


def test_where_it_saturates_is_told_like_this():
    cases = {
        "beside the first row": recorded(USUAL),
        "the first is enough": recorded({1: [5], 2: [5]}),
        "the most are the best": recorded({1: [10], 2: [5]}),
        "no workers are the fastest": recorded({0: [5], 1: [10], 2: [9.9]}),
        "one number of workers": recorded({4: [5]}),
        "other programs took more than a tenth of 8 cores": recorded(USUAL, others=1.5),
        "turns differ": recorded({0: [10], 1: [5, 10, 5], 2: [5]}),
    }
    check_shown(WORKERS, cases)


def test_the_chart_shows_every_row_and_rings_the_point():
    [chart] = WORKERS.page(recorded(USUAL)).charts
    line, enough, mark = chart.figure.data
    assert list(line.x) == [0, 1, 2, 4, 8]
    assert [round(rate) for rate in line.y] == [100, 100, 196, 200, 182]
    assert list(enough.y) == [190, 190]
    assert (list(mark.x), mark.name) == ([2], "saturation: 2 workers")
