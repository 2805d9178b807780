"""Resizing along one side by weighted sums of samples; and of whole images by Pillow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.decode.frame_outputs import Array

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Taps:
    """Value k of a side is the sum of `weights[k] * samples[index[k]]`."""

    index: NDArray[np.int64]
    """int64 [results, taps], into the samples."""
    weights: Numbers
    """float64 [results, taps]; each row sums to 1."""


def area(samples: int, results: int, shift: float = 0) -> Taps:
    """Shrink by averages; a sample on the border of two results counts in part for each.

    `shift` moves the results, in samples.
    """
    half = samples / results / 2

    def overlap(distance: Numbers) -> Numbers:
        return np.clip(half + 0.5 - np.abs(distance), 0, 1)

    return _taps(samples, results, half + 0.5, overlap, shift)


def linear(samples: int, results: int, shift: float = 0) -> Taps:
    """Grow by linear interpolation; `shift` as for `area`."""
    return _taps(samples, results, 1, _triangle, shift)


def cubic(samples: int, results: int, shift: float = 0) -> Taps:
    """Grow or shrink by swscale's bicubic, with parameter 0.6; `shift` as for `area`."""
    scale = max(1.0, samples / results)
    return _taps(samples, results, 2 * scale, lambda d: _cubic(d / scale, -0.6), shift)


def antialiased_linear(samples: int, results: int, shift: float = 0) -> Taps:
    """Grow or shrink by Pillow's bilinear, which torchvision follows."""
    scale = max(1.0, samples / results)
    return _taps(samples, results, scale, lambda d: _triangle(d / scale), shift, crops=True)


def antialiased_cubic(samples: int, results: int, shift: float = 0) -> Taps:
    """Grow or shrink by Pillow's bicubic, with parameter 0.5."""
    scale = max(1.0, samples / results)
    return _taps(samples, results, 2 * scale, lambda d: _cubic(d / scale, -0.5), shift, crops=True)


def _taps(
    samples: int,
    results: int,
    reach: float,
    weight: Callable[[Numbers], Numbers],
    shift: float = 0,
    *,
    crops: bool = False,
) -> Taps:
    """Return the taps of a kernel: `weight` of the distance from a result's middle, in samples.

    Samples beyond the border repeat it; with `crops` they have no weight.
    """
    middle = (np.arange(results) + 0.5) * samples / results - 0.5 + shift
    first = np.floor(middle - reach).astype(np.int64)
    index = first[:, None] + np.arange(int(np.ceil(2 * reach)) + 2)
    weights = weight(index - middle[:, None])
    if crops:
        weights = np.where((index >= 0) & (index < samples), weights, 0)
    weights = weights / weights.sum(1, keepdims=True)
    used = (weights != 0).any(0)
    return Taps(np.clip(index[:, used], 0, samples - 1), weights[:, used])


def _triangle(distance: Numbers) -> Numbers:
    weights: Numbers = np.maximum(1 - np.abs(distance), 0)
    return weights


def _cubic(distance: Numbers, slope: float) -> Numbers:
    x = np.abs(distance)
    near = ((slope + 2) * x - (slope + 3)) * x * x + 1
    far = slope * (((x - 5) * x + 8) * x - 4)
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


_KERNELS: Final = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


def resize(image: Array, size: tuple[int, int], interpolation: str) -> Array:
    """Return uint8 [H, W, 3] as [*size, 3], by `bilinear` or `bicubic`; read-only.

    Uses Pillow, which torchvision's antialiased resizing follows: bilinear within one grey level,
    bicubic within two.
    Cost: some 3 ms from 720p to 256x256, on the frame at full size.
    """
    if image.shape[:2] == size:
        return image
    height, width = size
    full = Image.fromarray(np.ascontiguousarray(image))
    return np.asarray(full.resize((width, height), _KERNELS[interpolation]))
