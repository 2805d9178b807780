"""Metadata comes with the moment it belongs to: by the loader, by stock workers, from tables."""

import pytest
import torch
from torch.utils.data import DataLoader

from headrace.errors import ConfigError
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.metadata import ClipMoment
from headrace.training.cameras.moment_table import MomentTable
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from headrace.training.cameras.windows.loader import CameraWindowLoader
from headrace.training.transforms import WithSample
from training.cameras.clips import SIZE, write_layout

LENGTHS = {"a": 6, "b": 4, "c": 5}


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return write_layout(tmp_path_factory.mktemp("clips"), LENGTHS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def facts(clip: str, moment: ClipMoment) -> dict:
    return {"of": (clip, moment.number), "frames": dict(moment.frames), "value": torch.ones(2)}


def is_of_its_moment(batch, place) -> bool:
    clip, number = batch["clip_name"][place], int(batch["index"][place])
    found = batch["metadata"][place]
    if clip == "":
        return found == {} and batch["frame"][place].tolist() == [-1] * 3
    cameras = ("back", "front", "left")
    frames = dict(zip(cameras, batch["frame"][place].tolist(), strict=True))
    return found["of"] == (clip, number) and found["frames"] == frames


def test_a_loader_gives_each_moment_what_belongs_to_it(layout):
    shown = 0
    with CameraLoader(layout, group_num=2, size=SIZE, metadata=facts) as loader:
        for batch in loader:
            for place in range(2):
                assert is_of_its_moment(batch, place)
                shown += batch.clip_name[place] != ""
                if batch.clip_name[place]:
                    assert batch.frame[place].tolist() == [int(batch.index[place])] * 3
            assert batch.to("cpu").metadata is not None
    assert shown == sum(LENGTHS.values())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stock_dataloader_carries_it_also_through_workers(layout, workers):
    cameras = CameraStreamDataset(layout, num_of_set=2, size=SIZE, metadata=facts)
    sampler = CameraStreamSampler(cameras, group_num=2, num_workers=workers, interleaved=True)
    shown = 0
    loader = DataLoader(cameras, batch_sampler=sampler, num_workers=workers)
    for batch in sampler.joined(loader):
        assert isinstance(batch["metadata"], list)
        assert all(is_of_its_moment(batch, place) for place in range(len(batch["clip_name"])))
        shown += sum(name != "" for name in batch["clip_name"])
    assert shown == sum(LENGTHS.values())


def test_a_batch_without_metadata_has_none(layout):
    with CameraLoader(layout, group_num=2, size=SIZE) as loader:
        batch = next(iter(loader))
    assert "metadata" not in batch
    assert batch.clip_name == [layout.clips[number].name for number in batch.clip]


@pytest.mark.parametrize("by_time", [False, True])
def test_each_moment_of_a_window_has_what_belongs_to_it(layout, by_time):
    """From a table, which has nothing of moment 3; a pad has what belongs to its stand-in."""
    rows = [
        {"clip": clip, "is": f"{clip}{number}"}
        | ({"seconds": number / 30} if by_time else {"frame": number})
        for clip, length in LENGTHS.items()
        for number in range(length)
        if number != 3
    ]
    table = MomentTable.of_rows(rows)
    seen = []

    def look(frames, sample):
        seen.append(sample["metadata"])
        return frames

    options = {"num_moments": 3, "batch_size": 2, "size": SIZE, "transform": WithSample(look)}
    with CameraWindowLoader(layout, metadata=table, **options) as loader:
        batches = [*loader]
    for batch in batches:
        expected = [
            [{"is": f"{clip}{number}"} if number != 3 else {} for number in numbers]
            for clip, numbers in zip(batch.clip_name, batch.index.tolist(), strict=True)
        ]
        assert batch.metadata == batch.to("cpu").metadata == expected
        assert seen[: len(batch)] == expected
        del seen[: len(batch)]
    assert any(batch.is_pad.any() for batch in batches)


def test_a_transform_sees_what_belongs_to_its_sample(layout):
    seen = []

    def look(frames, sample):
        seen.append((sample["clip_name"], int(sample["slot"]), sample["metadata"]["of"]))
        return frames

    with CameraLoader(
        layout, group_num=2, size=SIZE, metadata=facts, transform=WithSample(look)
    ) as loader:
        next(iter(loader))
    assert [(name, 0) for name, _, _ in seen] == [of for _, _, of in seen]


def failing(clip, moment):
    return {}[clip]


def test_metadata_that_fails_names_clip_and_moment(layout):
    with (
        pytest.raises(ConfigError, match=r"metadata of clip '\w', moment 0 .* failed: KeyError"),
        CameraLoader(layout, group_num=2, size=SIZE, metadata=failing) as loader,
    ):
        next(iter(loader))
    with (
        pytest.raises(ConfigError, match=r"must be a mapping by name, such as \{\}, got list"),
        CameraLoader(layout, group_num=2, size=SIZE, metadata=lambda *_: []) as loader,
    ):
        next(iter(loader))
    for make in (CameraLoader, CameraStreamDataset, CameraWindowLoader):
        with pytest.raises(ConfigError, match="for a file there is MomentTable"):
            make(layout, size=SIZE, metadata="poses.csv")


def looked_for(clip, moment):
    return next(each for each in () if each == clip)


def compared(clip, moment):
    assert clip == moment.number


def computed(clip, moment):
    return {"pose": torch.zeros(2) + torch.zeros(3)}


class OddPoseError(Exception):
    """Of a library of the user's own."""


def own(clip, moment):
    raise OddPoseError("not in the map\nof Boston")


def interrupted(clip, moment):
    raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [None, 0, 2])
@pytest.mark.parametrize(
    ("function", "error"),
    [
        (looked_for, "StopIteration: no reason given; it is called"),
        (compared, "AssertionError"),
        (computed, "RuntimeError"),
        (own, "OddPoseError: not in the map; it is called"),
    ],
)
def test_whatever_a_function_fails_with_is_told_and_ends_no_epoch(layout, function, error, workers):
    """StopIteration, as of a search that finds nothing, would end the loop in silence."""
    said = rf"metadata of clip '\w', moment 0 .* failed: {error}"
    if workers is None:
        with (
            pytest.raises(ConfigError, match=said),
            CameraLoader(layout, group_num=2, size=SIZE, metadata=function) as loader,
        ):
            list(loader)
        return
    cameras = CameraStreamDataset(layout, size=SIZE, metadata=function)
    sampler = CameraStreamSampler(cameras, num_workers=workers, interleaved=True)
    with pytest.raises(ConfigError, match=said):
        list(DataLoader(cameras, batch_sampler=sampler, num_workers=workers))


def test_ctrl_c_in_a_function_is_no_fault_of_it(layout):
    with (
        pytest.raises(KeyboardInterrupt),
        CameraLoader(layout, group_num=2, size=SIZE, metadata=interrupted) as loader,
    ):
        next(iter(loader))


def moment(number: int, seconds: float = 0.0) -> ClipMoment:
    return ClipMoment(number=number, seconds=seconds, frames={}, cameras=())


def test_rows_are_joined_by_frame(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("clip,frame,steer\na,4,0.5\na,0,0.25\nb,0,1\n")
    table = MomentTable.read(path)
    assert table("a", moment(4)) == {"steer": 0.5}
    assert table("a", moment(0)) == {"steer": 0.25}
    assert table("a", moment(1)) == {}
    with pytest.raises(ConfigError, match="has no row of clip 'c'; it has a, b"):
        table("c", moment(0))


def test_rows_are_joined_by_the_nearest_time_within_the_tolerance():
    rows = [
        {"scene": "a", "timestamp_us": 1532402927612460 + each * 10_000, "x": each}
        for each in (1, 0)
    ]
    table = MomentTable.of_rows(rows, tolerance_ms=4)
    assert table("a", moment(7, 1532402927.612460)) == {"x": 0}
    assert table("a", moment(7, 1532402927.616460)) == {"x": 0}
    assert table("a", moment(7, 1532402927.617460)) == {}
    assert table("a", moment(7, 1532402927.619)) == {"x": 1}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "holds no row"),
        ([{"frame": 1}], "must have a column called clip or scene, and frame"),
        ([{"clip": "a", "x": 1}], "must have a column called clip or scene, and frame"),
        ([{"clip": "", "frame": 1}], "row 0 of the table of moments has no clip"),
        ([{"clip": "a", "frame": "x"}], "frame of row 0 of the table"),
        ([{"clip": "a", "frame": 0.5}], "frame of row 0 .* must be a whole number from 0 on, got"),
        ([{"clip": "a", "frame": -1}], "frame of row 0 .* must be a whole number from 0 on, got"),
        ([{"clip": "a", "frame": 1}] * 2, "row 0 of .* and row 1 of .* are of one moment"),
        ([{"clip": "a", "timestamp": 1}], "does not say their unit"),
    ],
)
def test_a_table_that_cannot_be_joined_is_refused(rows, said):
    with pytest.raises(ConfigError, match=said):
        MomentTable.of_rows(rows)
