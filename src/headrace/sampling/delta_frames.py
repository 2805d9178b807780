"""Frames at fixed time offsets around each sampled frame (LeRobot's `delta_timestamps`)."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.frame_times import seconds_of
from headrace.sampling.population import Population
from headrace.sampling.sampler import (
    Sampler,
    SamplerContext,
    SamplerTraits,
    bind_sampler,
    check_kind,
)


@answers_names
@dataclass(frozen=True, kw_only=True)
class DeltaFrames:
    """Clips of the frames shown at `delta_seconds` around each frame of another sampler.

        DeltaFrames(delta_seconds=(-0.2, -0.1, 0.0), sampling=ShuffledFrames())

    Times before the start of the video, or of the manifest's row, give its first frame, times after
    its end its last; both are marked in `Batch.is_pad`. `FrameTimes` defines when a frame is shown.
    An order delivers int64 [n, deltas] frame ids.
    """

    delta_seconds: tuple[float | Fraction | str, ...]
    """Relative to the sampled frame; below 0: before it. In any order."""
    sampling: Sampler
    """Sampler of the single frames."""

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
        """The sampler's traits, for clips."""
        traits = self.sampling.traits
        times = ", ".join(map(str, self.delta_seconds))
        return replace(
            traits,
            identity=f"{traits.identity} around {times}",
            num_frames=len(self.delta_seconds),
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return the same with its sampler bound to the context.

        Raises:
            ConfigError: as of `bind_sampler`.
        """
        return replace(self, sampling=bind_sampler(self.sampling, context))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: as long as the sampler's.

        Raises:
            ConfigError: the population has no times, or the sampler cannot sample from it.
        """
        population.timed()
        frames = self.sampling.order(population, epoch)
        seconds = seconds_of("delta_seconds", self.delta_seconds)

        def clips_at(slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
            video, index = population.locate(frames.frames_at(slots))
            shown, is_outside = population.shown_after(video, index, seconds)
            return population.frame_ids(video[:, None], shown), is_outside

        return EpochOrder.of_clips(len(frames), clips_at, has_pads=True, too_short=frames.too_short)
