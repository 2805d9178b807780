"""Slots: which sequence is read at which place of the batch, from its first frame to its last."""

import heapq
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count, repeat
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.units import check_integers, one_of

Tail = Literal["pad", "drop", "refill", "endless"]
"""What happens at the end of an epoch, when some slots have nothing left to read: `pad` leaves them
empty, so that each frame comes exactly once; `drop` ends the epoch with the first of them; `refill`
lets them read sequences again, so that every batch is full. With `endless` there is no end: a slot
goes on to the next sequence of the next epoch's order, for ever."""

NO_LENGTH = "with tail='endless' has no length, as it never ends; count the steps of training"


@dataclass(frozen=True, kw_only=True)
class TailCounts:
    """What the end of an epoch does to some slots, in moments: one slot in one step."""

    empty: int = 0
    """Nothing is left to read: `pad`."""
    repeated: int = 0
    """Read again: `refill`."""
    dropped: int = 0
    """Never read: `drop`. Counted with the last step."""

    def __add__(self, other: "TailCounts") -> "TailCounts":
        return TailCounts(
            empty=self.empty + other.empty,
            repeated=self.repeated + other.repeated,
            dropped=self.dropped + other.dropped,
        )


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


EMPTY = -1

ORDER = 2
"""Raised whenever an epoch of the same seed would come in another order, so that a state of before
is refused."""

_COARSE_BITS = 3
"""Lengths that agree in so many leading bits differ by less than a quarter, and count as equal."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotPlan:
    """What every slot reads in one epoch."""

    epoch: int
    num_steps: int
    """Batches of the epoch; the same for every rank."""
    sequences: tuple[NDArray[np.int64], ...]
    """For each slot: the sequences it reads, one after the other."""
    starts: tuple[NDArray[np.int64], ...]
    """For each slot: the step each of them begins at, ascending."""
    ends: tuple[int, ...]
    """For each slot: the step it has nothing to read from."""
    due: tuple[int, ...]
    """For each slot: the steps that what it is dealt takes, read once, whatever the tail."""

    def at(self, slot: int, step: int) -> tuple[int, int]:
        """Return (sequence, step inside it); `EMPTY` twice where the slot has nothing to read."""
        if step >= self.ends[slot]:
            return EMPTY, EMPTY
        place = int(np.searchsorted(self.starts[slot], step, side="right")) - 1
        return int(self.sequences[slot][place]), step - int(self.starts[slot][place])

    def epoch_at(self, slot: int, step: int) -> int:
        """Return the epoch whose order the sequence there is of: this one."""
        return self.epoch

    def tail(self, slots: Iterable[int], start: int, stop: int) -> TailCounts:
        """Return what the tail does to `slots` in the steps [start, stop), at most `num_steps`."""
        is_last = start < self.num_steps <= stop
        counts = TailCounts()
        for slot in slots:
            end, due = self.ends[slot], self.due[slot]
            counts += TailCounts(
                empty=max(0, stop - max(start, end)),
                repeated=max(0, min(stop, end) - max(start, due)),
                dropped=max(0, due - self.num_steps) if is_last else 0,
            )
        return counts


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotSchedule:
    """Deals sequences to slots: the longest first, each, whole, to the slot with the least to read.

    So slots end at most one sequence apart, and as the short ones come last, mostly much nearer. A
    slot stays with one rank and one decoder, which lets every frame be decoded once. Of slots with
    as much to read, one of each group comes first, so that groups have as many.

    A slot reads its sequences in the order given, or in another random one for each epoch. Lengths
    that differ by less than a quarter count as equal in dealing; that order decides among them, and
    another one among slots with as much to read, and among those of a group. So a shuffled epoch
    also has other sequences side by side, in other slots, on other ranks.
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
        one_of(Tail, tail=self.tail)
        check_integers(0, seed=self.seed)
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

    def plan(self, epoch: int) -> SlotPlan | EndlessPlan:
        """Return what the slots read in `epoch`. Takes microseconds for each sequence.

        Where the tail is `endless`: from its order on, for ever.
        """
        if self.tail == "endless":
            return EndlessPlan(lengths=self.lengths, queue=self._queue(epoch), slots=self.slots)
        order = self._order(len(self.lengths), epoch, RngStream.SHUFFLE)
        free = self._free(epoch)
        dealt: list[list[int]] = [[] for _ in free]
        place = {sequence: k for k, sequence in enumerate(order)}
        for sequence in sorted(order, key=self._coarse, reverse=True):
            self._deal(sequence, free, dealt)
        for mine in dealt:
            mine.sort(key=place.__getitem__)
        due = tuple(end for end, *_ in sorted(free, key=lambda each: each[-1]))
        num_steps = min(due) if self.tail == "drop" else max(due)
        ends = tuple(min(end, num_steps) for end in due)
        if self.tail == "refill":
            again = chain.from_iterable(repeat(order))
            while free[0][0] < num_steps:
                self._deal(next(again), free, dealt)
            ends = (num_steps,) * self.slots
        sequences = tuple(np.array(mine, np.int64) for mine in dealt)
        lengths = [self.lengths[mine] for mine in sequences]
        return SlotPlan(
            epoch=epoch,
            num_steps=num_steps,
            sequences=sequences,
            starts=tuple(np.cumsum(mine) - mine for mine in lengths),
            ends=ends,
            due=due,
        )

    def _queue(self, first_epoch: int) -> Iterator[tuple[int, int]]:
        """Yield (epoch, sequence): all sequences of one epoch after the other, in its order."""
        for epoch in count(first_epoch):
            for sequence in self._order(len(self.lengths), epoch, RngStream.SHUFFLE):
                yield epoch, sequence

    def _free(self, epoch: int) -> list[tuple[int, int, int, int]]:
        """Return a heap of all slots: (steps dealt, place in its group, turn, slot)."""
        turns = self._order(self.slots, epoch, RngStream.SLOT)
        free = []
        for first in range(0, self.slots, self.group):
            mine = range(first, min(first + self.group, self.slots))
            by_turn = sorted(mine, key=turns.__getitem__) if self.shuffle else mine
            free += [(0, place, turns[slot], slot) for place, slot in enumerate(by_turn)]
        heapq.heapify(free)
        return free

    def _order(self, size: int, epoch: int, purpose: RngStream) -> list[int]:
        places = np.arange(size)
        if self.shuffle:
            draws = CounterRng(seed=self.seed, epoch=epoch, purpose=purpose)
            places = Feistel(size=size, draws=draws).at(places)
        order: list[int] = places.tolist()
        return order

    def _coarse(self, sequence: int) -> int:
        """Return a length rounded down; in whole numbers, so that all machines agree."""
        length = int(self.lengths[sequence])
        spare = max(0, length.bit_length() - _COARSE_BITS)
        return length >> spare << spare

    def _deal(
        self, sequence: int, free: list[tuple[int, int, int, int]], dealt: list[list[int]]
    ) -> None:
        """Give a sequence to the slot with the least: (steps, place in its group, turn, slot)."""
        steps, place, turn, slot = heapq.heappop(free)
        dealt[slot].append(sequence)
        heapq.heappush(free, (steps + int(self.lengths[sequence]), place, turn, slot))
