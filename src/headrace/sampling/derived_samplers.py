"""Samplers that wrap another sampler: frames around its frames, manifest rows, and windows."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.cached_property import cached_property
from headrace.sampling.population import Population, seconds_of
from headrace.sampling.sampler import (
    EpochOrder,
    Sampler,
    SamplerContext,
    SamplerTraits,
    bind_sampler,
    check_kind,
    check_samples,
)


@answers_names
@dataclass(frozen=True, kw_only=True)
class DeltaFrames:
    """Clips of the frames shown at `delta_seconds` around each frame that a sampler selects.

        DeltaFrames(delta_seconds=(-0.2, -0.1, 0.0), sampling=ShuffledFrames())

    Times before the start of the video or manifest row get its first frame, times after the end its
    last frame; both are marked in `Batch.is_pad`. `FrameTimes` defines when a frame is shown. An
    order returns frame ids, int64 [n, deltas].
    """

    delta_seconds: tuple[float | Fraction | str, ...]
    """Times relative to the sampled frame, in any order; below 0: before it."""
    sampling: Sampler
    """Sampler of single frames."""

    def __post_init__(self) -> None:
        seconds = seconds_of("delta_seconds", self.delta_seconds)
        object.__setattr__(self, "delta_seconds", seconds)
        check_kind(
            self.sampling,
            "single frames",
            taker="DeltaFrames",
            instead="give one such as ShuffledFrames()",
        )

    @property
    def traits(self) -> SamplerTraits:
        """Traits of the wrapped sampler, for clips."""
        traits = self.sampling.traits
        times = ", ".join(map(str, self.delta_seconds))
        return replace(
            traits,
            identity=f"{traits.identity} around {times}",
            num_frames=len(self.delta_seconds),
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return a copy whose wrapped sampler is bound to the context.

        Raises:
            ConfigError: as for `bind_sampler`.
        """
        return replace(self, sampling=bind_sampler(self.sampling, context))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: one clip per frame of the wrapped sampler.

        Raises:
            ConfigError: the population has no times, or the wrapped sampler cannot sample from it.
        """
        population.timed()
        frames = self.sampling.order(population, epoch)
        seconds = seconds_of("delta_seconds", self.delta_seconds)

        def clips_at(slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
            video, index = population.locate(frames.frames_at(slots))
            shown, is_outside = population.shown_after(video, index, seconds)
            return population.frame_ids(video[:, None], shown), is_outside

        return EpochOrder.of_clips(len(frames), clips_at, has_pads=True, too_short=frames.too_short)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Segments of videos, which may overlap, as a population with one video per row.

    So every sampler samples rows like videos: each once, in proportion to weights, with clips
    inside a row. Its frame ids are in that population; `frames_of` converts them to frame ids of
    the videos, so that a frame in two rows is decoded once.
    """

    number: NDArray[np.int64]
    """int64 [rows]: index of each row in the manifest."""
    first: NDArray[np.int64]
    """int64 [rows]: frame id, over all videos, of each row's first frame."""
    population: Population
    """Frames of all rows; a frame in two rows counts twice."""
    timed: Callable[[], Population]
    """Returns the population with durations."""

    @cached_property
    def checksum(self) -> int:
        """Checksum of the rows, in their order."""
        lengths = self.population.frames_per_video
        return zlib.crc32(b"".join(array.tobytes() for array in (self.number, self.first, lengths)))

    def timed_population(self) -> Population:
        """Return the population with durations, for uniform sampling in time."""
        return self.timed()

    def frames_of(self, row_frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """Convert frame ids of rows to frame ids of the videos."""
        row, index = self.population.locate(row_frames)
        frames: NDArray[np.int64] = self.first[row] + index
        return frames


@dataclass(frozen=True, kw_only=True)
class RowSampler:
    """Sampler of rows, which returns frame ids of their videos."""

    sampler: Sampler
    """Wrapped sampler; it samples rows like videos."""
    rows: Rows
    population: Population
    """Population of the rows, with durations if the sampler needs them."""

    @property
    def traits(self) -> SamplerTraits:
        """Traits of the wrapped sampler, for these rows."""
        traits = self.sampler.traits
        return replace(
            traits,
            identity=f"{traits.identity} of rows {self.rows.checksum}",
            needs_durations=False,
            frames_needed=1,
        )

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch, with frame ids of the videos' `population`.

        Raises:
            ConfigError: the wrapped sampler cannot sample from these rows.
        """
        del population  # `rows` has its frame ids
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


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowSampler:
    """Sampler of windows: returns the frames of the windows whose key moments a sampler selects."""

    sampler: Sampler
    """Wrapped sampler; a key moment is a frame, a clip is a video."""
    keys: Population
    """Key moments of all clips."""
    frames_of: Callable[[NDArray[np.int64]], NDArray[np.int64]]
    """Key moments, int64 [n] → frame ids of their windows, int64 [n, num_frames]."""
    num_frames: int
    """Frames of a window, over all cameras."""
    checksum: int
    """Checksum of the frames of all windows."""

    @property
    def traits(self) -> SamplerTraits:
        """Traits of the wrapped sampler, for these windows; overlapping windows share frames."""
        traits = self.sampler.traits
        return replace(
            traits,
            identity=f"{traits.identity} of windows {self.checksum}",
            has_replacement=True,
            num_frames=self.num_frames,
            needs_durations=False,
            frames_needed=1,
            spans_videos=True,
        )

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: int64 [n, num_frames]; `rows_at` returns the keys.

        Raises:
            ConfigError: the wrapped sampler cannot sample from these key moments.
        """
        del population  # `frames_of` has its frame ids
        order = self.sampler.order(self.keys, epoch)

        def keys_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            keys = order.frames_at(slots)
            check_samples(keys, self.sampler, self.keys)
            return keys

        return replace(
            order, frames_at=lambda slots: self.frames_of(keys_at(slots)), rows_at=keys_at
        )
