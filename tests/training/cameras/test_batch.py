"""The mask of a batch says which pixels are of a picture."""

import pytest
import torch

from headrace.errors import ConfigError
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.cameras.alignment import Alignment
from headrace.training.cameras.batch import CameraBatch
from headrace.training.cameras.loader import CameraLoader
from headrace.video.camera_layout import CameraLayout

NAN = float("nan")


def batch_of(frames, sizes, seconds=None) -> CameraBatch:
    """One slot of as many cameras as there are sizes."""
    count = len(sizes)
    return CameraBatch(
        frames=frames,
        sizes=torch.tensor([sizes]),
        valid=torch.ones(1, count, dtype=torch.bool),
        first_frame=torch.tensor([True]),
        slot=torch.tensor([0]),
        clip=torch.tensor([0]),
        index=torch.tensor([0]),
        pts_seconds=torch.tensor([seconds or [0.0] * count], dtype=torch.float64),
        error_ms=torch.zeros(1, count, dtype=torch.float64),
    )


def test_a_pixel_is_of_the_picture_or_of_the_padding():
    batch = batch_of(torch.zeros(1, 3, 3, 2, 4), [(2, 4), (1, 4), (2, 3)])
    assert batch.mask.dtype == torch.bool
    assert batch.mask.int().tolist() == [
        [
            [[1, 1, 1, 1], [1, 1, 1, 1]],
            [[1, 1, 1, 1], [0, 0, 0, 0]],
            [[1, 1, 1, 0], [1, 1, 1, 0]],
        ]
    ]


def test_what_is_not_there_has_no_pixel():
    batch = batch_of(torch.zeros(1, 3, 3, 2, 4), [(2, 4), (0, 0), (2, 4)], [0.0, NAN, NAN])
    assert batch.mask.flatten(2).all(-1).tolist() == [[True, False, False]]
    assert not batch.mask[:, 1:].any()


def test_a_list_has_a_mask_for_each_picture():
    frames = [[torch.zeros(3, 2, 4), torch.zeros(3, 1, 3), torch.zeros(3, 0, 0)]]
    batch = batch_of(frames, [(2, 4), (1, 3), (0, 0)], [0.0, NAN, NAN])
    [[whole, missing, empty]] = batch.mask
    assert (whole.shape, missing.shape, empty.shape) == ((2, 4), (1, 3), (0, 0))
    assert whole.dtype == missing.dtype == torch.bool
    assert whole.all()
    assert not missing.any()


def test_a_transform_that_keeps_height_and_width_keeps_the_mask():
    batch = batch_of(torch.zeros(1, 3, 2, 4).float(), [(2, 4), (1, 4), (2, 3)])
    assert batch.mask.shape == (1, 3, 2, 4)


def test_pictures_that_were_made_smaller_have_no_mask():
    batch = batch_of(torch.zeros(1, 1, 3, 2, 2), [(2, 4)])
    with pytest.raises(ConfigError, match=r"\[2, 4\] in size, and transform made \[2, 2\]"):
        _ = batch.mask


@pytest.fixture
def layout(tmp_path):
    """Two clips of two cameras of different sizes; one of the second clip ends early."""
    for clip, length in {"a": 6, "b": 4}.items():
        (tmp_path / clip).mkdir()
        write_clip(tmp_path / clip / "left", SynthClip(num_frames=6, size=(64, 96)))
        write_clip(tmp_path / clip / "right", SynthClip(num_frames=length, size=(96, 64)))
    return CameraLayout.of_folders([tmp_path], lambda file: 6)


@pytest.mark.parametrize("on_missing", ["mask", "repeat"])
@pytest.mark.parametrize("ragged", ["pad", "list"])
def test_a_loader_delivers_black_where_the_mask_is_false(layout, store, ragged, on_missing):
    with CameraLoader(
        layout,
        group_num=3,
        ragged=ragged,
        alignment=Alignment(on_missing=on_missing),
        workers=2,
        store=store,
    ) as loader:
        batches = list(loader)
    assert len(batches) == 6
    for batch in batches:
        is_there = batch.index[:, None].expand(3, 2) >= 0
        if on_missing == "mask":
            is_there = batch.valid
        for row in range(3):
            for camera in range(2):
                picture, mask = batch.frames[row][camera], batch.mask[row][camera]
                assert mask.shape == picture.shape[-2:]
                assert mask.sum() == is_there[row, camera] * batch.sizes[row, camera].prod()
                assert not picture[:, ~mask].any()
