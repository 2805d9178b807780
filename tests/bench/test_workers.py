"""Workers benchmark: timed epochs by number of workers, and findings on saturation."""

import pytest

from bench.clocks import TickingClock
from bench.records import local_provenance, timing
from headrace.bench.benchmark import Context
from headrace.bench.workers import WORKERS, Epoch, WorkersConfig, WorkersRecord
from headrace.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


QUICK = {"clip_len": 3, "size": (16, 16), "batch_size": 4}


def test_epochs_are_interleaved_and_the_record_has_the_options(measure, videos):
    """The clips are equal in every epoch, so in this process and in workers they cost the same."""
    seen = []
    context = Context(
        command=("headrace", "bench"),
        on_progress=lambda *turn: seen.append(turn),
        clock=TickingClock(1),
    )
    options = {**QUICK, "videos": videos, "workers": (0, 1), "repeats": 2, "clips_per_video": 4}
    record = measure(WORKERS, context, **options)
    assert [epoch.workers for epoch in record.epochs] == [0, 1, 0, 1]
    labels = ["0 workers", "0 workers", "1 worker", "0 workers", "1 worker"]
    assert seen == [(label, number, 5) for number, label in enumerate(labels)]
    assert (record.videos, record.clips, record.frames) == (2, 8, 24)
    for epoch in record.epochs:
        assert (epoch.seconds, epoch.first_batch_seconds) == (2, 1)
        assert epoch.cpu_seconds > 0
        assert epoch.others_cpu_seconds >= 0
        assert epoch.memory_bytes > 10**6
    costs = {(row.decoded, row.seeks, row.opens, row.bytes_read) for row in record.epochs}
    ((decoded, _, opens, read),) = costs
    assert decoded >= record.frames
    assert opens >= record.videos
    assert read > 0
    assert record.provenance.command == ("headrace", "bench")
    assert record.provenance.versions["torch"]
    assert record.provenance.configuration == {
        **{**QUICK, "videos": 2, "size": "16,16", "workers": "0,1", "clips_per_video": 4},
        **{"boundary": "error", "stride": 2, "repeats": 2},
    }


def test_counts_of_several_workers_are_added(measure, videos):
    record = measure(WORKERS, **QUICK, videos=videos, workers=(2,))
    assert record.provenance.configuration["clips_per_video"] == 16
    assert record.epochs[0].decoded >= record.frames


@pytest.mark.parametrize(
    ("videos", "workers", "clips"), [(2, (8,), 128), (3, (0, 1), 18), (5, (0,), 5), (1, (2,), 32)]
)
def test_by_default_each_worker_has_four_batches(videos, workers, clips):
    assert WorkersConfig(videos=("a",) * videos, workers=workers).times * videos == clips


def test_clips_longer_than_the_video_are_refused(measure, videos):
    with pytest.raises(ConfigError, match="the video has 24: 12 are possible"):
        measure(WORKERS, videos=videos, clip_len=99)


def recorded(seconds_by_workers, others=0.0):
    """Return a record of epochs of 1000 frames, from workers -> seconds of each epoch."""
    read = {"frames": 1000, "decoded": 2500, "seeks": 60, "opens": 50, "bytes_read": 4_000_000}
    epochs = [
        Epoch(
            workers=workers,
            first_batch_seconds=seconds / 10,
            memory_bytes=200_000_000 * (workers + 1),
            **read | timing(seconds, cores=1.5, others=others),
        )
        for workers, times in seconds_by_workers.items()
        for seconds in times
    ]
    facts = {"videos": 5, "clips": 50, "frames": 1000}
    return WorkersRecord(provenance=local_provenance(cores=8), epochs=tuple(epochs), **facts)


USUAL = {8: [5.5], 2: [5.1, 5.0, 5.2], 0: [10, 10.2, 9.9], 1: [10], 4: [5.0]}


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
    [chart] = WORKERS.page(recorded(seconds)).charts
    assert list(chart.figure.data[1].x) == [workers]


def test_findings_on_saturation(check_pages):
    cases = {
        "beside the first row": recorded(USUAL),
        "the first is enough": recorded({1: [5], 2: [5]}),
        "the most are the best": recorded({1: [10], 2: [5]}),
        "no workers are the fastest": recorded({0: [5], 1: [10], 2: [9.9]}),
        "one number of workers": recorded({4: [5]}),
        "other programs took more than a tenth of 8 cores": recorded(USUAL, others=1.5),
        "turns differ": recorded({0: [10], 1: [5, 10, 5], 2: [5]}),
    }
    check_pages(WORKERS, cases)
