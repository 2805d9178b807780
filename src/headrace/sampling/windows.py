"""Windows: some moments up to each key moment, and samplers of key moments as samplers of those."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.alignment import nearest
from headrace.sampling.order import Order
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler, SamplerTraits, check_samples

_SLACK_SECONDS = 1e-6
"""Times that differ by less are the same; as in `alignment`."""

RowsOf = tuple[NDArray[np.int64], NDArray[np.bool_]]
"""int64 [K, T]: the moments of the window of each of K keys, as places in the clip; and bool
[K, T]: those that stand in for others, which the clip does not have."""


def history(keys: NDArray[np.int64], num_moments: int, stride: int) -> RowsOf:
    """Return the `num_moments` moments, `stride` apart, that end at each key.

    Before the beginning of the clip, its first moment stands in.

    Args:
        keys: int64 [K]: places of moments in the clip.
        num_moments: T.
        stride: 1 means consecutive.
    """
    rows = keys[:, None] - np.arange(num_moments)[::-1] * stride
    return rows.clip(0), rows < 0


def at_deltas(
    keys: NDArray[np.int64],
    seconds: NDArray[np.float64],
    deltas: Sequence[float],
    tolerance: float,
) -> RowsOf:
    """Return the moments nearest to `deltas` after each key.

    Where none is so near, the nearest stands in.

    Args:
        keys: int64 [K]: places of moments in the clip.
        seconds: float64 [M], ascending: when each moment of the clip was.
        deltas: T times in seconds; below 0: before the key.
        tolerance: Seconds.
    """
    wanted = seconds[keys][:, None] + np.array(deltas, np.float64)
    rows = nearest(wanted.ravel(), seconds, np.inf).reshape(wanted.shape)
    return rows, np.abs(seconds[rows] - wanted) > tolerance + _SLACK_SECONDS


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowSampler:
    """What a sampler gives of key moments, as the frames of the windows that belong to them."""

    sampler: Sampler
    """Samples key moments as if they were frames, and clips as if they were videos."""
    keys: Population
    """The key moments of all clips."""
    rows: NDArray[np.int64]
    """int64 [K, T]: the moments of each window."""
    frames: NDArray[np.int64]
    """int64 [moments, C]: ids of the frames of each moment, one for each camera."""

    @property
    def traits(self) -> SamplerTraits:
        """Those of the sampler, and of which windows; windows that overlap share frames."""
        traits = self.sampler.traits
        return replace(
            traits,
            identity=f"{traits.identity} of windows {self._checksum}",
            has_replacement=True,
            num_frames=self.rows.shape[1] * self.frames.shape[1],
            needs_durations=False,
            frames_needed=1,
            spans_videos=True,
        )

    def order(self, population: Population, epoch: int) -> Order:
        """Return the order of one epoch: int64 [n, T * C]; its rows are the keys.

        Raises:
            ConfigError: the sampler cannot sample from such key moments.
        """
        del population  # which frames there are is known since the windows were made
        order = self.sampler.order(self.keys, epoch)

        def keys_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            keys = order.frames_at(slots)
            check_samples(keys, self.sampler, self.keys)
            return keys

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            return self.frames[self.rows[keys_at(slots)]].reshape(len(slots), -1)

        return replace(order, frames_at=frames_at, rows_at=keys_at)

    @cached_property
    def _checksum(self) -> int:
        shapes = repr((self.rows.shape, self.frames.shape)).encode()
        return zlib.crc32(
            self.frames.tobytes(), zlib.crc32(self.rows.tobytes(), zlib.crc32(shapes))
        )
