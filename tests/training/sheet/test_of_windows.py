"""What a batch of windows of cameras shows of itself."""

import pytest
import torch

from headrace.errors import ConfigError
from headrace.sampling.frames import InOrder
from headrace.training.cameras.windows.loader import CameraWindowLoader
from training.cameras.clips import CAMERAS, write_layout


@pytest.fixture(scope="module")
def batch(tmp_path_factory, store):
    """Windows of 3 moments up to moments 0 to 3 of clip a, and 0 of clip b."""
    layout = write_layout(tmp_path_factory.mktemp("cameras"), {"a": 4, "b": 2})
    options = {"num_moments": 3, "batch_size": 5, "size": (32, 48), "sampling": InOrder()}
    with CameraWindowLoader(layout, workers=1, store=store, **options) as loader:
        return next(iter(loader))


def test_cameras_are_rows_and_moments_stand_side_by_side(batch):
    sheet = batch.show(samples=[3, 4])
    headings = [f"{clip}, {camera}" for clip in "ab" for camera in CAMERAS]
    assert [strip.heading for strip in sheet.strips] == headings
    assert [cell.lines[0] for cell in sheet.strips[0].cells] == [
        "#1, 0.03 s",
        "#2, 0.07 s",
        "#3, 0.10 s",
    ]
    assert sheet.title == ("2 of 5 windows, 3 of 3 moments of each, 6 of 6 rows of cameras",)
    picture = batch.frames[3, 1, 2].permute(1, 2, 0)
    shown = sheet.strips[2].cells[1].picture
    assert torch.equal(torch.from_numpy(shown[::6, ::6].copy()), picture)
    assert sheet.image.width > 0


def test_two_windows_are_shown_where_none_are_chosen_and_fewer_moments_as_asked(batch):
    assert len(batch.show().strips) == 6
    [strip, *_] = batch.show(frames=2).strips
    assert len(strip.cells) == 2


def test_pads_and_frames_that_are_missing_repeated_or_concealed_are_marked(batch):
    marked = batch.to("cpu")
    marked.valid, marked.pts_seconds = marked.valid.clone(), marked.pts_seconds.clone()
    marked.valid[3, 0, :2] = False
    marked.pts_seconds[3, 0, 1] = float("nan")
    marked.is_concealed = marked.is_concealed.clone()
    marked.is_concealed[3, 2, 0] = True
    back, front, _ = marked.show(samples=[3]).strips
    assert [cell.marks for cell in back.cells] == [("repeated",), (), ("concealed",)]
    assert [cell.marks for cell in front.cells] == [("missing",), (), ()]
    assert [cell.marks for cell in batch.show(samples=[0]).strips[0].cells] == [
        ("pad",),
        ("pad",),
        (),
    ]


def test_colour_may_be_last_and_values_normalised(batch):
    changed = batch.to("cpu")
    changed.frames = batch.frames.movedim(-3, -1).float() / 255
    one, other = (each.show(samples=[3]).strips[0].cells[0] for each in (changed, batch))
    assert (one.picture == other.picture).all()


def test_what_is_no_picture_of_windows_is_refused(batch):
    flat = batch.to("cpu")
    flat.frames = batch.frames.flatten(1, 2)
    with pytest.raises(ConfigError, match=r"\[3, 3\], got \[5, 9, 3, 32, 48\]"):
        flat.show()
    with pytest.raises(ConfigError, match="samples must be some of the 5 places"):
        batch.show(samples=[5])
