"""Pictures are flipped and rotated alike as arrays and as tensors."""

import numpy as np
import pytest
import torch

from headrace.training.cameras.framing import Framing
from headrace.training.cameras.turning import flipped, rotated
from headrace.video.shape import FrameShape

SIZES = [(6, 8), (7, 7), (9, 16), (1, 5), (64, 96)]
ANGLES = [-360.0, -90.0, -5.4, -0.01, 0.3, 5.4, 45.0, 90.0, 123.4, 180.0, 270.0, 359.0]


def noise(size) -> np.ndarray:
    return np.random.default_rng([*size]).integers(0, 256, (*size, 3), np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_flipped_tensors_are_flipped_arrays(size):
    picture = noise(size)
    found = flipped(torch.from_numpy(picture))
    assert np.array_equal(found.numpy(), flipped(picture))
    assert np.array_equal(found.numpy()[:, ::-1], picture)


@pytest.mark.parametrize("degrees", ANGLES)
@pytest.mark.parametrize("size", SIZES)
def test_rotated_tensors_are_rotated_arrays(size, degrees):
    picture = noise(size)
    found = rotated(torch.from_numpy(picture), degrees)
    assert (found.dtype, tuple(found.shape)) == (torch.uint8, picture.shape)
    assert np.array_equal(found.numpy(), rotated(picture, degrees))


def test_a_picture_is_finished_in_its_place_whatever_it_is():
    shape = FrameShape(size=(32, 48))
    framing = Framing.of(shape, (64, 96), is_flipped=True, degrees=9.0)
    array = noise((40, 60))
    tensor = torch.from_numpy(array.copy())
    framing.finish(array[:32, :48])
    framing.finish(tensor[:32, :48])
    assert np.array_equal(tensor.numpy(), array)
    untouched = noise((40, 60))
    assert np.array_equal(tensor.numpy()[32:], untouched[32:])
    assert not np.array_equal(tensor.numpy()[:32, :48], untouched[:32, :48])
