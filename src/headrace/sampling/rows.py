"""Rows of a manifest: parts of videos, sampled as if each were a video of its own."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler, SamplerTraits


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Parts of videos, which may overlap, as a population of their own: one video per row.

    So every sampler samples from rows as from videos: each once, in proportion to weights, clips
    inside a row. It returns ids in that population; `frames_of` converts them to ids of the videos'
    frames, so that a frame in two rows is decoded once.
    """

    number: NDArray[np.int64]
    """int64 [rows]: index of each row in the given manifest."""
    first: NDArray[np.int64]
    """int64 [rows]: frame id, over all videos, of each row's first frame."""
    population: Population
    """The frames of all rows; a frame in two rows counts twice."""
    timed: Callable[[], Population]
    """Returns the population with durations."""

    @cached_property
    def checksum(self) -> int:
        """Checksum of the rows and their order."""
        lengths = self.population.frames_per_video
        return zlib.crc32(b"".join(array.tobytes() for array in (self.number, self.first, lengths)))

    def timed_population(self) -> Population:
        """Return the population with durations, to sample uniformly in time."""
        return self.timed()

    def frames_of(self, row_frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame ids, over all videos, of ids in the population of rows."""
        row, index = self.population.locate(row_frames)
        frames: NDArray[np.int64] = self.first[row] + index
        return frames


@dataclass(frozen=True, kw_only=True)
class RowSampler:
    """Sampler of rows: another sampler's frames of rows, as frames of their videos."""

    sampler: Sampler
    """Samples rows as videos."""
    rows: Rows
    population: Population
    """The population of rows, with durations if the sampler needs them."""

    @property
    def traits(self) -> SamplerTraits:
        """The sampler's traits, for these rows."""
        traits = self.sampler.traits
        return replace(
            traits,
            identity=f"{traits.identity} of rows {self.rows.checksum}",
            needs_durations=False,
            frames_needed=1,
        )

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch, in frames of `population`, that of the videos.

        Raises:
            ConfigError: the sampler cannot sample from these rows.
        """
        del population  # the rows hold ids of its frames
        order, rows = self.sampler.order(self.population, epoch), self.rows

        def rows_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            row_frames = order.frames_at(slots)
            first = row_frames if row_frames.ndim == 1 else row_frames[:, 0]
            return rows.number[rows.population.video_of(first)]

        return replace(
            order,
            frames_at=lambda slots: rows.frames_of(order.frames_at(slots)),
            rows_at=rows_at,
            too_short=tuple(rows.number[[*order.too_short]].tolist()),
        )
