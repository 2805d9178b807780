"""Bursts: frames taken a few at a time where they lie together, dealt out far apart."""

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
    """Each frame exactly once an epoch, in bursts that one decoding each gives.

    The one sampler that trades statistics for speed. Its bias is 0: every slot holds a uniform
    frame. What it costs is correlation between frames of one burst; `bias.mate_lags` says how far
    apart they are delivered, and the rest of `bias` what that does to gradients.

    1. Every GOP is cut into as many bursts as it holds, so that the last ends where the GOP ends.
       What is left over at its start, and GOPs shorter than a burst, are strung together in order
       and cut likewise. So all bursts have the same size (but for one, the last), most lie inside
       a GOP, and those that do not are the cheapest to decode: they lie next to keyframes.
    2. Bursts in random order, end to end, make a circle of all frames; reading begins at a random
       place. Therefore every slot is uniform, because its place on the circle is.
    3. The circle is cut into `lanes` equal parts, and slots are dealt to the lanes in turn. Frames
       of a burst lie a multiple of `lanes` slots apart, so a step of at most `lanes` frames, on all
       ranks together, never holds two of them; `check_step` tells.
    4. Slots are delivered as planned, never as they get ready: otherwise what decodes fast would
       come first.

    Each epoch has its own order and beginning; bursts are the same in all of them, because a
    random cut would decode half a frame more for each one delivered, and mend no bias. A slot is
    computed in O(log GOPs). A burst is decoded once if the planner looks ahead
    (frames_per_burst - 1) * lanes + 1 slots.
    Source: CorgiPile (Xu et al., SIGMOD 2022) shuffles blocks likewise, in a pool.
    """

    frames_per_burst: int
    """Frames taken from one decoding. 1 is `ShuffledFrames`."""
    lanes: int
    """Bursts that are open at a time: at least the batch size, times the ranks that share an epoch.
    About lanes * (frames_per_burst - 1) / 2 decoded frames wait for their slot."""
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
        """Return this with the seed asked for.

        Raises:
            ConfigError: a step could hold two frames of a burst, or its size is not known.
        """
        if self.frames_per_burst > 1:
            if context.batch_size is None:
                raise ConfigError(
                    f"{self} keeps frames of a burst out of one batch, and needs to know how large "
                    "that is; say batch_size, that of the DataLoader"
                )
            self.check_step(context.batch_size, context.ranks)
        return replace(self, seed=context.seed_for(self.seed))

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch: as many slots as frames. Reads every GOP length once.

        Raises:
            ConfigError: there are fewer than lanes * (frames_per_burst + 1) frames, so that a
                batch could hold two frames of a burst.
        """
        frames = population.num_frames
        most = frames // (self.frames_per_burst + 1)
        if self.lanes > most:
            raise ConfigError(
                f"{self.lanes} lanes of bursts of {self.frames_per_burst} need at least "
                f"{self.lanes * (self.frames_per_burst + 1)} frames, the videos have {frames}; "
                f"at most {most} lanes are possible"
            )
        bursts = _Bursts.of(population, self.frames_per_burst)
        # The last, shorter burst keeps its place at the end; on a circle no place is special.
        shuffle = Feistel(
            size=frames // self.frames_per_burst, draws=self._draws(epoch, RngStream.SHUFFLE)
        )
        rounds, longer = divmod(frames, self.lanes)
        start = int(self._draws(epoch, RngStream.ROTATION).integers(0, frames))

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            dealt, lane = np.divmod(slots, self.lanes)
            # The first `longer` lanes hold one frame more, so that the lanes hold all frames.
            place = lane * rounds + np.minimum(lane, longer) + dealt
            burst, step = np.divmod((start + place) % frames, self.frames_per_burst)
            is_full = burst < len(shuffle)
            burst[is_full] = shuffle.at(burst[is_full])
            return bursts.frames_at(burst * self.frames_per_burst + step)

        return EpochOrder(length=frames, frames_at=frames_at)

    def check_step(self, batch_size: int, ranks: int = 1) -> None:
        """Check that no step holds two frames of a burst: `batch_size` on each of `ranks`.

        Slots that are given once more, so that ranks share out evenly, are not looked at.

        Raises:
            ConfigError: a step has more frames than there are lanes.
        """
        step = batch_size * ranks
        if self.frames_per_burst == 1 or step <= self.lanes:
            return
        smaller = f", or a batch_size of at most {self.lanes // ranks}"
        raise ConfigError(
            f"a step of {batch_size} frames on each of {ranks} ranks can hold two frames of one "
            f"burst if they are dealt to {self.lanes} lanes; ask for {step} lanes or more"
            f"{smaller if self.lanes >= ranks else ''}"
        )

    def _draws(self, epoch: int, purpose: RngStream) -> CounterRng:
        return CounterRng(seed=self.seed, epoch=epoch, purpose=purpose)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Bursts:
    """All bursts end to end, unshuffled: first those inside a GOP, then those of the left-overs."""

    inside: NDArray[np.int64]
    """int64 [GOPs + 1]: frames in bursts inside a GOP, before each GOP; last, all of them."""
    left_over: NDArray[np.int64]
    """int64 [GOPs + 1]: frames that are left over, before each GOP; last, all of them."""

    @classmethod
    def of(cls, population: Population, frames_per_burst: int) -> "_Bursts":
        left_over = np.append(0, np.cumsum(population.gop_lengths % frames_per_burst))
        return cls(inside=population.gop_start - left_over, left_over=left_over)

    def frames_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the frame at each place in [0, frames).

        A frame id is the number of frames before it: of its own kind, which is its place among
        them, and of the other. Inside its GOP, the GOP's own left-overs come before it.
        """
        strung = places - self.inside[-1]
        next_gop = np.searchsorted(self.inside, places, "right")
        gop = np.searchsorted(self.left_over, strung, "right") - 1
        return np.where(
            strung < 0,
            places + self.left_over.take(next_gop, mode="clip"),
            strung + self.inside[gop],
        )
