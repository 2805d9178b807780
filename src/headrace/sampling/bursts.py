"""Bursts: clusters of neighboring frames that are decoded together and delivered far apart."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headrace.argument_names import answers_names
from headrace.errors import ConfigError
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.sampling.epoch_order import EpochOrder
from headrace.sampling.population import Population
from headrace.sampling.sampler import SamplerContext, SamplerTraits
from headrace.units import check_integers


@answers_names
@dataclass(frozen=True, kw_only=True)
class Bursts:
    """Each frame exactly once per epoch, in bursts; the frames of a burst are decoded together.

    The only sampler that trades statistics for speed. Its bias is 0: every slot has a uniform
    frame. But frames of one burst are correlated: `bias.mate_lags` returns their distance in
    batches, and other functions of `bias` the effect on gradients.

    1. Every GOP is cut into as many whole bursts as fit, of which the last ends with the GOP. The
       remaining frames at its start, and GOPs shorter than a burst, are concatenated in order and
       cut in the same way. So all bursts have the same size (except the very last). Most are inside
       a GOP; the others are next to keyframes, and cheapest to decode.
    2. Bursts in random order, end to end, form a circle of all frames; an epoch starts at a random
       position. So every slot is uniform, because its position on the circle is.
    3. The circle is cut into `lanes` equal parts, and slots are taken from the lanes in turn.
       Frames of a burst are a multiple of `lanes` slots apart, so a step of at most `lanes` frames,
       over all ranks, never has two of them; `check_step` checks this.
    4. Slots are delivered as planned, never in the order of decoding: otherwise frames that decode
       fast would come first.

    Each epoch has its own order and start. The bursts are the same in all epochs: random cuts would
    decode half a frame more per frame delivered, and would not reduce the bias. A slot is computed
    in O(log GOPs). A burst is decoded once if the planner looks ahead
    (frames_per_burst - 1) * lanes + 1 slots.
    Source: CorgiPile (Xu et al., SIGMOD 2022) shuffles blocks in the same way, in a pool.
    """

    frames_per_burst: int
    """Frames in a burst. 1 is the same as `ShuffledFrames`."""
    lanes: int
    """Number of bursts that are delivered in parallel: at least the batch size times the number of
    ranks. About lanes * (frames_per_burst - 1) / 2 decoded frames wait for their slot."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_integers(1, frames_per_burst=self.frames_per_burst, lanes=self.lanes)

    @property
    def traits(self) -> SamplerTraits:
        """Each frame once an epoch."""
        return SamplerTraits(
            identity=repr(self), is_random=True, has_replacement=False, seed=self.seed
        )

    def bind(self, context: SamplerContext) -> Self:
        """Return the sampler with the requested seed.

        Raises:
            ConfigError: a step could hold two frames of a burst, or its size is unknown.
        """
        if self.frames_per_burst > 1:
            if context.batch_size is None:
                raise ConfigError(
                    f"{self} keeps frames of a burst out of one batch, and needs the batch size; "
                    "give batch_size, as for the DataLoader"
                )
            self.check_step(context.batch_size, context.ranks)
        return replace(self, seed=context.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: as many slots as frames. Reads every GOP length once.

        Raises:
            ConfigError: there are fewer than lanes * (frames_per_burst + 1) frames, so a batch
                could have two frames of a burst.
        """
        frames = population.num_frames
        max_lanes = frames // (self.frames_per_burst + 1)
        if self.lanes > max_lanes:
            raise ConfigError(
                f"{self.lanes} lanes of bursts of {self.frames_per_burst} need at least "
                f"{self.lanes * (self.frames_per_burst + 1)} frames, the videos have {frames}; "
                f"at most {max_lanes} lanes are possible"
            )
        bursts = _Bursts.of(population, self.frames_per_burst)
        # The last, shorter burst is not shuffled, which is fine: on a circle no position is
        # special.
        draws = CounterRng(self.seed, epoch, RngStream.SHUFFLE)
        shuffle = Feistel(size=frames // self.frames_per_burst, draws=draws)
        rounds, longer = divmod(frames, self.lanes)
        start = int(CounterRng(self.seed, epoch, RngStream.ROTATION).integers(0, frames))

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            in_lane, lane = np.divmod(slots, self.lanes)
            # The first `longer` lanes have one frame more, so that the lanes have all frames.
            position = lane * rounds + np.minimum(lane, longer) + in_lane
            burst, step = np.divmod((start + position) % frames, self.frames_per_burst)
            is_full = burst < len(shuffle)
            burst[is_full] = shuffle.at(burst[is_full])
            return bursts.frames_at(burst * self.frames_per_burst + step)

        return EpochOrder(length=frames, frames_at=frames_at)

    def check_step(self, batch_size: int, ranks: int = 1) -> None:
        """Check that no step of `batch_size` on each of `ranks` has two frames of a burst.

        Does not consider slots that are repeated so that all ranks have equally many.

        Raises:
            ConfigError: a step has more frames than there are lanes.
        """
        step = batch_size * ranks
        if self.frames_per_burst == 1 or step <= self.lanes:
            return
        smaller = f", or a batch_size of at most {self.lanes // ranks}"
        raise ConfigError(
            f"a step of {batch_size} frames on each of {ranks} ranks can have two frames of one "
            f"burst with {self.lanes} lanes; choose {step} lanes or more"
            f"{smaller if self.lanes >= ranks else ''}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bursts:
    """All bursts end to end, unshuffled: bursts inside a GOP, then bursts of the remainders."""

    inside: NDArray[np.int64]
    """int64 [GOPs + 1]: frames before each GOP that are in bursts inside a GOP; the last entry is
    their total."""
    remainder: NDArray[np.int64]
    """int64 [GOPs + 1]: frames before each GOP that are in remainders; the last entry is their
    total."""

    @classmethod
    def of(cls, population: Population, frames_per_burst: int) -> "_Bursts":
        remainder = np.append(0, np.cumsum(population.gop_lengths % frames_per_burst))
        return cls(inside=population.gop_start - remainder, remainder=remainder)

    def frames_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame id at each position in [0, frames).

        A frame id is the number of frames before the frame: frames of the same kind (inside or
        remainder), which is its position among them, plus frames of the other kind. A frame inside
        a GOP comes after the remainder of that GOP.
        """
        in_remainders = positions - self.inside[-1]
        next_gop = np.searchsorted(self.inside, positions, "right")
        gop = np.searchsorted(self.remainder, in_remainders, "right") - 1
        return np.where(
            in_remainders < 0,
            positions + self.remainder.take(next_gop, mode="clip"),
            in_remainders + self.inside[gop],
        )
