"""The same epoch for every number of workers, timed; where throughput saturates, in words."""

import pytest

from bench.shown import check_shown, made
from headrace.bench.benchmark import Context
from headrace.bench.workers import (
    WORKERS,
    Epoch,
    WorkersConfig,
    WorkersRecord,
    measure_workers,
    rows_of,
)
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, OpenError
from headrace.measuring.interleaved import Spread
from headrace.testing.synth import SynthClip, write_clip

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


class TickingClock:
    """A clock on which each reading is a second after the last."""

    def __init__(self):
        self.seconds = 0

    def now_ns(self):
        self.seconds += 1
        return self.seconds * 10**9

    def wall_seconds(self):
        return 1_700_000_000.0


@pytest.fixture
def measure(tmp_path):
    """Return a function that measures two small videos."""
    videos = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12)) for k in range(2)]

    def run(**options):
        seen = []
        options = {"videos": tuple(map(str, videos)), "clip_len": 3, "size": (16, 16), **options}
        record = measure_workers(
            WorkersConfig(**options),
            Context(
                command=("headrace", "bench"),
                on_progress=lambda *turn: seen.append(turn),
                store=IndexStore(tmp_path / "index"),
                clock=TickingClock(),
            ),
        )
        return record, seen

    return run


def test_each_number_of_workers_has_its_epochs_in_turn(measure):
    record, seen = measure(workers=(0, 2), repeats=2, clips_per_video=4)
    assert [epoch.workers for epoch in record.epochs] == [0, 2, 0, 2]
    assert seen == [(f"{workers} workers", done, 5) for done, workers in enumerate([0, 0, 2, 0, 2])]
    assert (record.videos, record.clips, record.frames) == (2, 8, 24)
    for epoch in record.epochs:
        assert (epoch.seconds, epoch.first_batch_seconds) == (2, 1)
        assert epoch.cpu_seconds > 0
        assert epoch.others_cpu_seconds >= 0
        assert epoch.memory_bytes > 10**6


def test_all_processes_count_what_an_epoch_cost_and_only_that(measure):
    """The same clips in every epoch: in this process or in workers, they cost the same."""
    record, _ = measure(workers=(0, 1), repeats=2, clips_per_video=4)
    costs = {(each.decoded, each.seeks, each.opens, each.bytes_read) for each in record.epochs}
    assert len(costs) == 1
    ((decoded, _, opens, read),) = costs
    assert decoded >= record.frames
    assert opens >= record.videos
    assert read > 0
    shared, _ = measure(workers=(2,), repeats=1, clips_per_video=4)
    assert shared.epochs[0].decoded >= record.frames


def test_the_record_says_what_it_was_made_with(measure):
    record, _ = measure(workers=(0,), repeats=1)
    provenance = record.provenance
    assert provenance.command == ("headrace", "bench")
    assert provenance.configuration == {
        "videos": 2,
        "workers": "0",
        "batch_size": 4,
        "clip_len": 3,
        "boundary": "error",
        "stride": 2,
        "size": "16,16",
        "clips_per_video": 1,
        "repeats": 1,
    }
    assert provenance.versions["torch"]
    assert WorkersRecord.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize(
    ("videos", "workers", "clips"), [(2, (8,), 128), (3, (0, 1), 18), (5, (0,), 5), (1, (2,), 32)]
)
def test_by_default_each_worker_has_four_batches(videos, workers, clips):
    assert WorkersConfig(videos=("a",) * videos, workers=workers).times * videos == clips


def test_clips_that_are_longer_than_the_video_are_refused(measure):
    with pytest.raises(ConfigError, match="the video has 12: 6 are possible"):
        measure(**{"clip_len": 99})


def test_a_video_that_cannot_be_read_is_named_before_workers_start(measure):
    with pytest.raises(OpenError, match=r"gone\.mp4"):
        measure(videos=("gone.mp4",), workers=(1,))


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
