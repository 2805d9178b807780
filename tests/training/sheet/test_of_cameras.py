"""What a batch of cameras shows of itself."""

import pytest
import torch

from headrace.errors import ConfigError
from headrace.training.cameras.loader import CameraLoader
from training.cameras.clips import CAMERAS, write_layout


@pytest.fixture(scope="module")
def batches(tmp_path_factory, store):
    """Two slots, one of which is empty in the end."""
    layout = write_layout(tmp_path_factory.mktemp("cameras"), {"a": 3, "b": 2})
    with CameraLoader(layout, group_num=2, size=(32, 48), workers=1, store=store) as loader:
        return list(loader)


def test_cameras_are_rows_and_slots_stand_side_by_side(batches):
    sheet = batches[1].show()
    assert [strip.heading for strip in sheet.strips] == [*CAMERAS]
    assert [[cell.lines[0] for cell in strip.cells] for strip in sheet.strips] == [["a", "b"]] * 3
    assert sheet.title == ("2 of 2 slots, 3 of 3 cameras",)
    cell = sheet.strips[2].cells[1]
    picture = batches[1].frames[1, 2].permute(1, 2, 0)
    assert torch.equal(torch.from_numpy(cell.picture[::6, ::6].copy()), picture)


def test_an_empty_slot_is_marked(batches):
    marks = [[cell.marks for cell in strip.cells] for strip in batches[-1].show().strips]
    assert marks == [[(), ("empty",)]] * 3


def test_frames_that_are_missing_or_repeated_are_marked(batches):
    batch = batches[0].to("cpu")
    batch.valid = torch.tensor([[True, False, False], [True, True, True]])
    batch.pts_seconds = batch.pts_seconds.clone()
    batch.pts_seconds[0, 1] = float("nan")
    marks = [strip.cells[0].marks for strip in batch.show(samples=[0]).strips]
    assert marks == [(), ("missing",), ("repeated",)]


def test_cameras_of_different_sizes_are_shown_from_lists(batches):
    batch = batches[0].to("cpu")
    batch.frames = [
        [torch.zeros(3, 20 + camera, 30) for camera in range(3)],
        [torch.empty(0), torch.ones(3, 50, 20), torch.ones(3, 5, 5)],
    ]
    assert batch.show().image.width > 0


def test_what_is_no_picture_of_cameras_is_refused(batches):
    batch = batches[0].to("cpu")
    batch.frames = torch.zeros(2, 9)
    with pytest.raises(ConfigError, match=r"got \[2, 9\]"):
        batch.show()
    with pytest.raises(ConfigError, match="samples must be some of the 2 places"):
        batches[0].show(samples=[5])
