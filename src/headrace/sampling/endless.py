"""EndlessPlan: what slots read where an epoch has no end, dealt as far as anybody looks."""

import heapq
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.tail import TailCounts


@dataclass(kw_only=True, eq=False)
class EndlessPlan:
    """Each slot that has read its sequence takes the next of a queue that never ends.

    The queue has every sequence once for each epoch, in the order of that epoch, so no sequence
    comes more than once oftener than another. For one thread: it deals when it is asked. Some
    microseconds and 100 bytes for each sequence that was dealt.
    """

    lengths: NDArray[np.int64]
    """int64 [sequences]: steps that each takes."""
    queue: Iterator[tuple[int, int]]
    """(epoch, sequence), one after the other."""
    slots: int
    num_steps: int = sys.maxsize
    """No end."""
    _dealt: list["_Slot"] = field(init=False)
    _free: list[tuple[int, int]] = field(init=False)
    """A heap of (step that a slot is free from, slot)."""

    def __post_init__(self) -> None:
        self._dealt = [_Slot() for _ in range(self.slots)]
        self._free = [(0, slot) for slot in range(self.slots)]

    def at(self, slot: int, step: int) -> tuple[int, int]:
        """Return (sequence, step inside it)."""
        mine, place = self._place(slot, step)
        return mine.sequences[place], step - mine.starts[place]

    def epoch_at(self, slot: int, step: int) -> int:
        """Return the epoch whose order the sequence there is of."""
        mine, place = self._place(slot, step)
        return mine.epochs[place]

    def tail(self, slots: Iterable[int], start: int, stop: int) -> TailCounts:
        """Return what the tail does: nothing, as there is none."""
        return TailCounts()

    def _place(self, slot: int, step: int) -> tuple["_Slot", int]:
        mine = self._dealt[slot]
        while mine.end <= step:
            self._deal()
        return mine, bisect_right(mine.starts, step) - 1

    def _deal(self) -> None:
        """Give the next sequence of the queue to the slot that is free first."""
        start, slot = heapq.heappop(self._free)
        epoch, sequence = next(self.queue)
        mine = self._dealt[slot]
        mine.starts.append(start)
        mine.sequences.append(sequence)
        mine.epochs.append(epoch)
        mine.end = start + int(self.lengths[sequence])
        heapq.heappush(self._free, (mine.end, slot))


@dataclass(kw_only=True, eq=False)
class _Slot:
    """What one slot reads so far."""

    starts: list[int] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    end: int = 0
