"""Rows: parts of videos that are sampled as if each were a video of its own."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.population import Population
from headrace.sampling.sampler import Sampler, SamplerTraits


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Parts of videos, which may overlap, as a population of their own: one video for each row.

    So every sampler samples from rows as it does from videos: each once, in proportion to weights,
    clips inside a row. What it gives are ids in that population; `frames_of` makes them ids of the
    frames that there are, so that two rows that share a frame decode it once.
    """

    number: NDArray[np.int64]
    """int64 [rows]: place of each row in the manifest that was given."""
    first: NDArray[np.int64]
    """int64 [rows]: id, among all frames of all videos, of the first frame of each row."""
    population: Population
    """The frames of all rows; what lies in two of them counts twice."""
    timed: Callable[[], Population]
    """Returns the same with durations."""

    @cached_property
    def checksum(self) -> int:
        """A number that other rows, or another order of them, are most unlikely to share."""
        lengths = self.population.frames_per_video
        return zlib.crc32(b"".join(each.tobytes() for each in (self.number, self.first, lengths)))

    def timed_population(self) -> Population:
        """Return the population with durations, to sample uniformly in time."""
        return self.timed()

    def frames_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids, among all frames of all videos, of ids in the population of rows."""
        row, index = self.population.locate(places)
        frames: NDArray[np.int64] = self.first[row] + index
        return frames


@dataclass(frozen=True, kw_only=True)
class RowSampler:
    """What a sampler gives of rows, as frames of the videos that they are parts of."""

    sampler: Sampler
    """Samples the rows as if they were videos."""
    rows: Rows
    population: Population
    """That of the rows, with durations if the sampler needs them."""

    @property
    def traits(self) -> SamplerTraits:
        """Those of the sampler, and of which rows."""
        traits = self.sampler.traits
        return replace(
            traits,
            identity=f"{traits.identity} of rows {self.rows.checksum}",
            needs_durations=False,
            frames_needed=1,
        )

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: which frames of `population`, that of the videos.

        Raises:
            ConfigError: the sampler cannot sample from such rows.
        """
        del population  # what rows are parts of is known since they were opened
        order, rows = self.sampler.order(self.population, epoch), self.rows

        def rows_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            places = order.frames_at(slots)
            first = places if places.ndim == 1 else places[:, 0]
            return rows.number[rows.population.video_of(first)]

        return replace(
            order,
            frames_at=lambda slots: rows.frames_of(order.frames_at(slots)),
            rows_at=rows_at,
            too_short=tuple(rows.number[[*order.too_short]].tolist()),
        )
