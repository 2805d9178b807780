"""Bursts: frames taken a few at a time where they lie together, dealt out far apart."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.feistel import Feistel
from headrace.sampling.order import Order
from headrace.sampling.population import Population
from headrace.sampling.random import Draws, Purpose


@dataclass(frozen=True, kw_only=True)
class Bursts:
    """Each frame exactly once an epoch, in bursts that one decoding each gives.

    The one sampler that trades statistics for speed. Its bias is 0: every slot holds a uniform
    frame. What it costs is correlation between frames of one burst; `bias.mate_lags` says how far
    apart they are delivered, and what SGD feels of it. Any slot is computed in O(log GOPs).

    1. Every GOP is turned by a random offset and cut into as many bursts as it holds, each a run
       inside the GOP. What is left over, and GOPs shorter than a burst, are strung together in
       order and cut likewise: all bursts have the same size, but for the last.
    2. Shuffled bursts, end to end, make a circle of all frames; reading starts at a random place.
       Therefore every slot is uniform: its place on the circle is, whatever the circle holds.
    3. The circle is cut into `lanes` equal parts, and slots are dealt to the lanes in turn. Frames
       of a burst lie a multiple of `lanes` slots apart, so a batch of at most `lanes` frames never
       holds two of them.
    4. Turns, cuts, shuffle and start are drawn anew for each epoch. Slots are delivered as
       planned, never as they get ready: otherwise what decodes fast would come first.
    """

    frames_per_burst: int
    """Frames taken from one decoding; 1 is `Permutation` at the price of its decoding."""
    lanes: int
    """Bursts that are open at a time. At least the batch size, times the ranks if several share an
    epoch. Decoded frames that wait for their slot: about lanes * (frames_per_burst - 1) / 2."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("frames_per_burst", self.frames_per_burst), ("lanes", self.lanes)):
            if value < 1:
                raise ConfigError(f"{name} must be >= 1, got {value}")

    def order(self, population: Population, epoch: int) -> Order:
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
        line = _BurstLine.of(population, self.frames_per_burst, self.seed, epoch)
        rounds, longer = divmod(frames, self.lanes)
        start = int(self._draws(epoch, Purpose.ROTATION).integers(0, frames))

        def frames_at(slots: NDArray[np.int64]) -> NDArray[np.int64]:
            dealt, lane = np.divmod(slots, self.lanes)
            # The first `longer` lanes hold one frame more, so that all slots are dealt.
            place = lane * rounds + np.minimum(lane, longer) + dealt
            return line.frames_at((place + start) % frames)

        return Order(length=frames, frames_at=frames_at)

    def _draws(self, epoch: int, purpose: Purpose) -> Draws:
        return Draws(seed=self.seed, epoch=epoch, purpose=purpose)
