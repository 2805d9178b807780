"""Slots: which sequence is read at which place of the batch, from its first frame to its last."""

import heapq
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.feistel import Feistel
from headrace.sampling.random import Draws, Purpose

Tail = Literal["pad", "drop", "refill"]
"""What happens at the end of an epoch, when some slots have nothing left to read: `pad` leaves them
empty, so that each frame comes exactly once; `drop` ends the epoch with the first of them; `refill`
lets them read sequences again, so that every batch is full."""

EMPTY = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotPlan:
    """What every slot reads in one epoch."""

    num_steps: int
    """Batches of the epoch; the same for every rank."""
    sequences: tuple[NDArray[np.int64], ...]
    """For each slot: the sequences it reads, one after the other."""
    starts: tuple[NDArray[np.int64], ...]
    """For each slot: the step each of them begins at, ascending."""
    ends: tuple[int, ...]
    """For each slot: the step it has nothing to read from."""

    def at(self, slot: int, step: int) -> tuple[int, int]:
        """Return (sequence, step inside it); `EMPTY` twice where the slot has nothing to read."""
        if step >= self.ends[slot]:
            return EMPTY, EMPTY
        place = int(np.searchsorted(self.starts[slot], step, side="right")) - 1
        return int(self.sequences[slot][place]), step - int(self.starts[slot][place])


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotSchedule:
    """Deals sequences to slots: each goes, whole, to the slot that is free first.

    So slots end at most one sequence apart, and a slot that stays with one rank and one decoder
    lets every frame be decoded once. Of slots that are free at the same time, the first of each
    group come first, so that groups have as many. Sequences are taken in the order given, or in
    another random one for each epoch.
    """

    lengths: NDArray[np.int64]
    """int64 [sequences]: steps that each takes, at least 1."""
    slots: int
    """Of all ranks together."""
    group: int = 1
    """So many slots that follow each other are read by one rank or worker."""
    tail: Tail = "pad"
    shuffle: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.tail not in get_args(Tail):
            raise ConfigError(f"tail must be one of {', '.join(get_args(Tail))}, got {self.tail!r}")
        if self.slots < 1:
            raise ConfigError(f"at least one slot is needed, got {self.slots}")
        if not len(self.lengths) or self.lengths.min() < 1:
            raise ConfigError("at least one sequence is needed, and each needs a frame")
        if self.tail == "drop" and len(self.lengths) < self.slots:
            raise ConfigError(
                f"{len(self.lengths)} clips do not fill {self.slots} slots (clips in a batch, over "
                "all ranks and workers), and tail='drop' leaves out batches that are not full; "
                f"ask for at most {len(self.lengths)} slots, for more seq_split, or for another "
                "tail"
            )

    def plan(self, epoch: int) -> SlotPlan:
        """Return what the slots read in `epoch`. Takes microseconds for each sequence."""
        order = self._order(epoch)
        free = [(0, slot % self.group, slot) for slot in range(self.slots)]
        heapq.heapify(free)
        dealt: list[list[tuple[int, int]]] = [[] for _ in free]
        for sequence in order:
            self._deal(sequence, free, dealt)
        ends = [end for end, _, _ in sorted(free, key=lambda each: each[2])]
        num_steps = min(ends) if self.tail == "drop" else max(ends)
        if self.tail == "refill":
            again = chain.from_iterable(repeat(order))
            while free[0][0] < num_steps:
                self._deal(next(again), free, dealt)
            ends = [num_steps] * self.slots
        return SlotPlan(
            num_steps=num_steps,
            sequences=tuple(np.array([each for each, _ in mine], np.int64) for mine in dealt),
            starts=tuple(np.array([start for _, start in mine], np.int64) for mine in dealt),
            ends=tuple(min(end, num_steps) for end in ends),
        )

    def _order(self, epoch: int) -> list[int]:
        places = np.arange(len(self.lengths))
        if self.shuffle:
            draws = Draws(seed=self.seed, epoch=epoch, purpose=Purpose.SHUFFLE)
            places = Feistel(size=len(places), draws=draws).at(places)
        order: list[int] = places.tolist()
        return order

    def _deal(
        self,
        sequence: int,
        free: list[tuple[int, int, int]],
        dealt: list[list[tuple[int, int]]],
    ) -> None:
        """Give a sequence to the slot that is free first: (step, place in its group, slot)."""
        start, place, slot = heapq.heappop(free)
        dealt[slot].append((sequence, start))
        heapq.heappush(free, (start + int(self.lengths[sequence]), place, slot))
