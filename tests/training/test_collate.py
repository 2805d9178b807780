"""Pixels become pictures without a copy, for frames, clips and cameras alike."""

import numpy as np
import pytest
import torch

from headrace.errors import ConfigError
from headrace.training.collate import Collate
from headrace.training.named_tensors import NamedTensors


@pytest.mark.parametrize("shape", [(2,), (2, 5)], ids=["frames", "clips or cameras"])
def test_colour_goes_first_and_no_pixel_is_copied(shape):
    pixels = np.arange(np.prod(shape) * 4 * 6 * 3, dtype=np.uint8).reshape(*shape, 4, 6, 3)
    pictures = Collate().pictures(pixels)
    assert pictures.shape == (*shape, 3, 4, 6)
    assert np.array_equal(pictures.numpy(), np.moveaxis(pixels, -1, -3))
    pixels[...] = 7
    assert (pictures == 7).all()


def test_pictures_of_different_sizes_are_transformed_one_by_one_but_not_those_that_are_not_there():
    seen = []

    def shrink(picture):
        seen.append(picture.shape)
        return picture[..., ::2, ::2]

    sizes = [[(4, 6), (2, 2)], [(0, 0), (8, 4)]]
    pixels = [[np.zeros((*size, 3), np.uint8) for size in row] for row in sizes]
    collate = Collate(transform=shrink)
    batch = NamedTensors(frames=collate.pictures(pixels), slot=torch.arange(2))
    pictures = collate.transformed(batch, lambda: [0, 1]).frames
    assert seen == [(3, 4, 6), (3, 2, 2), (3, 8, 4)]
    assert [[tuple(each.shape) for each in row] for row in pictures] == [
        [(3, 2, 3), (3, 1, 1)],
        [(3, 0, 0), (3, 4, 2)],
    ]


def test_the_transform_comes_after_the_device():
    def seen(frames):
        devices.append(frames.device.type)
        return frames

    devices = []
    collate = Collate(transform=seen, batch_transform=seen, device="meta")
    batch = NamedTensors(frames=collate.pictures(np.zeros((2, 2, 2, 3), np.uint8)))
    collate.transformed(batch, lambda: [0, 1])
    assert devices == ["meta"] * 3
    assert Collate().pictures(np.zeros((1, 2, 2, 3), np.uint8)).device == torch.device("cpu")


def test_a_device_that_there_is_not_is_refused_at_once():
    with pytest.raises(ConfigError, match="one that torch knows"):
        Collate(device="gpu")
