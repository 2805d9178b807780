"""Pictures flipped and rotated where they lie: arrays on the CPU, tensors on their device."""

import math

import numpy as np
import torch
from PIL import Image

from headrace.decode.pixels import Pixels


def flipped(picture: Pixels) -> Pixels:
    """Return a picture, uint8 [H, W, 3], with left and right in each other's place."""
    if isinstance(picture, torch.Tensor):
        return picture.flip(1)
    return picture[:, ::-1].copy()


def rotated(picture: Pixels, degrees: float) -> Pixels:
    """Return a picture, uint8 [H, W, 3], turned counter-clockwise about its middle, bilinear.

    What is laid open is black. Arrays are turned by Pillow, tensors by its formulas, bit by bit the
    same on the CPU; a GPU may round otherwise, which is one grey level. No GPU has run it yet.
    """
    if isinstance(picture, torch.Tensor):
        return _rotated(picture, degrees)
    whole = Image.fromarray(np.ascontiguousarray(picture))
    return np.asarray(whole.rotate(degrees, Image.Resampling.BILINEAR))


def _rotated(picture: torch.Tensor, degrees: float) -> torch.Tensor:
    """Return what Pillow makes of a picture, made on its device.

    As in Pillow's Geometry.c: a pixel is black where its middle comes from outside the picture;
    beyond the outermost middles the outermost pixels go on; fractions are cut off.
    """
    height, width = picture.shape[:2]
    angle = math.radians(degrees % 360)
    cosine, sine = round(math.cos(angle), 15), round(math.sin(angle), 15)
    right = torch.arange(width, dtype=torch.float64, device=picture.device) + 0.5
    down = torch.arange(height, dtype=torch.float64, device=picture.device)[:, None] + 0.5
    # Where each pixel comes from. In float64, as Pillow: edges decide between black and not, and
    # fractions that are cut off between one level and the next.
    x = cosine * right - sine * down + (-width / 2 * cosine + height / 2 * sine + width / 2)
    y = sine * right + cosine * down + (-width / 2 * sine - height / 2 * cosine + height / 2)
    is_inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    left, right_of, across = _taps(x, width)
    above, below, along = _taps(y, height)
    upper = _between(picture[above, left], picture[above, right_of], across)
    lower = _between(picture[below, left], picture[below, right_of], across)
    return (_between(upper, lower, along) * is_inside[..., None]).to(torch.uint8)


def _taps(place: torch.Tensor, side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the two pixels that a place lies between, and how far from the first to the second."""
    first = (place - 0.5).floor()
    share = (place - 0.5 - first)[..., None]
    one, other = (each.clamp(0, side - 1).to(torch.int64) for each in (first, first + 1))
    return one, other, share


def _between(one: torch.Tensor, other: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    first = one.to(torch.float64)
    return first + (other - first) * share
