"""Metadata is that of its moment: by the loader, by stock workers, from tables."""

from dataclasses import dataclass

import pytest

from forked import raised_by_a_worker
from headrace import ClipMoment, ConfigError, MomentTable
from loaders.cameras.clips import CAMERAS, facts
from loaders.videos import samples

LENGTHS = {"a": 6, "b": 4, "c": 9}

pytestmark = pytest.mark.usefixtures("own_cache")


def check(batch) -> int:
    """Compare metadata with their moments; return the number of moments."""
    shown = 0
    for clip, number, frame, metadata in samples(batch, "clip_name", "index", "frame", "metadata"):
        if clip == "":
            assert (metadata, frame) == ({}, [-1] * 3)
        else:
            frames = dict(zip(CAMERAS, frame, strict=True))
            assert metadata == {"of": (clip, number), "frames": frames}
            assert frame == [number] * 3
            shown += 1
    return shown


def test_a_loader_yields_the_metadata_of_each_moment(cameras, small):
    batches = list(cameras(small, metadata=facts))
    assert sum(map(check, batches)) == sum(LENGTHS.values())
    assert batches[0].to("cpu").metadata is not None
    batch = next(iter(cameras(small)))
    assert "metadata" not in batch
    assert batch.clip_name == [small.clips[number].name for number in batch.clip]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stock_dataloader_carries_it_also_through_workers(by_stock, small, workers):
    batches = list(by_stock(small, workers, {"group_num": 2}, metadata=facts)[1])
    assert all(isinstance(batch["metadata"], list) for batch in batches)
    assert sum(map(check, batches)) == sum(LENGTHS.values())


@pytest.mark.parametrize("by_time", [False, True])
def test_each_moment_of_a_window_has_its_metadata(windows, small, by_time):
    """From a table without moment 3; a pad has the metadata of its replacement."""
    rows = [
        {"clip": clip, "is": f"{clip}{number}"}
        | ({"seconds": number / 30} if by_time else {"frame": number})
        for clip, length in LENGTHS.items()
        for number in range(length)
        if number != 3
    ]
    table = MomentTable.of_rows(rows)
    batches = [*windows(small, metadata=table, num_moments=3, batch_size=2)]
    for batch in batches:
        expected = [
            [{"is": f"{clip}{number}"} if number != 3 else {} for number in numbers]
            for clip, numbers in samples(batch, "clip_name", "index")
        ]
        assert batch.metadata == batch.to("cpu").metadata == expected
    assert any(batch.is_pad.any() for batch in batches)


class OddPoseError(Exception):
    """An error class of the user."""


@dataclass
class Raising:
    """Metadata function that raises; workers get it by pickle on Python 3.14."""

    error: Exception

    def __call__(self, clip, moment):
        raise self.error


@pytest.mark.parametrize("workers", [None, 0, 2])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StopIteration(), "StopIteration: no reason given; its arguments"),
        (AssertionError(), "AssertionError"),
        (RuntimeError("of unlike sizes"), "RuntimeError: of unlike sizes; its arguments"),
        (OddPoseError("not in the map\nof Boston"), "OddPoseError: not in the map; its arguments"),
        (KeyError("a"), "KeyError"),
    ],
)
def test_an_error_of_the_metadata_function_is_named_and_ends_no_epoch(
    cameras, small, by_stock, error, message, workers
):
    """StopIteration, as of a search without result, would end the loop silently."""
    fails = {"metadata": Raising(error)}
    batches = cameras(small, **fails) if workers is None else by_stock(small, workers, **fails)[1]
    with raised_by_a_worker(ConfigError, rf"of clip '\w', moment 0 .* failed: {message}"):
        list(batches)


def test_ctrl_c_in_a_function_is_no_fault_of_it(cameras, small):
    loader = cameras(small, metadata=Raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader))


def moment(number: int, seconds: float = 0.0) -> ClipMoment:
    return ClipMoment(number=number, seconds=seconds, frames={}, cameras=())


def test_rows_are_joined_by_frame(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("clip,frame,steer\na,4,0.5\na,0,0.25\nb,0,1\n")
    table = MomentTable.read(path)
    for number, expected in ((4, {"steer": 0.5}), (0, {"steer": 0.25}), (1, {})):
        assert table("a", moment(number)) == expected
    with pytest.raises(ConfigError, match="has no row of clip 'c'; it has a, b"):
        table("c", moment(0))


def test_rows_are_joined_by_the_nearest_time_within_the_tolerance():
    times = {1: 1532402927622460, 0: 1532402927612460}
    rows = [{"scene": "a", "timestamp_us": time, "x": number} for number, time in times.items()]
    table = MomentTable.of_rows(rows, tolerance_ms=4)
    for seconds, row in (
        (0.612460, {"x": 0}),
        (0.616460, {"x": 0}),
        (0.617460, {}),
        (0.619, {"x": 1}),
    ):
        assert table("a", moment(7, 1532402927 + seconds)) == row


def test_invalid_metadata_are_refused(refused):
    refused("metadata")
