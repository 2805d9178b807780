"""Schedule of sequences on batch slots; a slot reads whole sequences, from first to last frame."""

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
"""Rule for the end of an epoch, when some slots have no sequence left: `pad` leaves them empty, so
that each frame comes exactly once; `drop` ends the epoch at the first of them; `refill` reads
sequences again in them, so that every batch is full; `endless` continues with the next epoch's
sequences."""

NO_LENGTH = "with tail='endless' has no length, as it never ends; count the steps of training"


@dataclass(frozen=True, kw_only=True)
class TailCounts:
    """Effect of the tail on some slots, in moments: one slot in one step."""

    empty: int = 0
    """Moments of empty slots: `pad`."""
    repeated: int = 0
    """Moments that are read again: `refill`."""
    dropped: int = 0
    """Moments that are never read: `drop`. Counted with the last step."""

    def __add__(self, other: "TailCounts") -> "TailCounts":
        return TailCounts(
            empty=self.empty + other.empty,
            repeated=self.repeated + other.repeated,
            dropped=self.dropped + other.dropped,
        )


@dataclass(kw_only=True, eq=False)
class EndlessPlan:
    """Plan without end: a slot that has read its sequence takes the next one of a queue.

    The queue has every sequence once per epoch, in the order of that epoch, so counts of sequences
    differ by at most 1. For one thread: look-ups assign sequences as they need them. Some
    microseconds and 100 bytes for each assigned sequence.
    """

    lengths: NDArray[np.int64]
    """int64 [sequences]: steps of each."""
    queue: Iterator[tuple[int, int]]
    """(epoch, sequence) in order, without end."""
    slots: int
    num_steps: int = sys.maxsize
    """No end."""
    _assigned: list["_Slot"] = field(init=False)
    _free: list[tuple[int, int]] = field(init=False)
    """Heap of (first free step, slot)."""

    def __post_init__(self) -> None:
        self._assigned = [_Slot() for _ in range(self.slots)]
        self._free = [(0, slot) for slot in range(self.slots)]

    def at(self, slot: int, step: int) -> tuple[int, int]:
        """Return (sequence, step inside it)."""
        assigned, position = self._find(slot, step)
        return assigned.sequences[position], step - assigned.starts[position]

    def epoch_at(self, slot: int, step: int) -> int:
        """Return the epoch of the sequence that the slot reads in a step."""
        assigned, position = self._find(slot, step)
        return assigned.epochs[position]

    def tail(self, slots: Iterable[int], start: int, stop: int) -> TailCounts:
        """Return the effect of the tail: none."""
        return TailCounts()

    def _find(self, slot: int, step: int) -> tuple["_Slot", int]:
        assigned = self._assigned[slot]
        while assigned.end <= step:
            self._assign()
        return assigned, bisect_right(assigned.starts, step) - 1

    def _assign(self) -> None:
        """Assign the next sequence of the queue to the slot that is free first."""
        start, slot = heapq.heappop(self._free)
        epoch, sequence = next(self.queue)
        assigned = self._assigned[slot]
        assigned.starts.append(start)
        assigned.sequences.append(sequence)
        assigned.epochs.append(epoch)
        assigned.end = start + int(self.lengths[sequence])
        heapq.heappush(self._free, (assigned.end, slot))


@dataclass(kw_only=True, eq=False)
class _Slot:
    """Sequences assigned to one slot so far."""

    starts: list[int] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    end: int = 0


EMPTY = -1
"""In place of a sequence and its step: the slot is empty."""

ORDER = 2
"""Version of the order; raised when an epoch of the same seed changes, so that older states are
refused."""

_COARSE_BITS = 3
"""Leading bits of a length that are compared; lengths that agree in them differ by < 1/4."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotPlan:
    """Sequences of every slot in one epoch."""

    epoch: int
    num_steps: int
    """Batches of the epoch; equal for all ranks."""
    sequences: tuple[NDArray[np.int64], ...]
    """For each slot: its sequences, in order."""
    starts: tuple[NDArray[np.int64], ...]
    """For each slot: the first step of each sequence, ascending."""
    ends: tuple[int, ...]
    """For each slot: the first step after its last sequence."""
    due: tuple[int, ...]
    """For each slot: the steps of its sequences, read once, whatever the tail."""

    def at(self, slot: int, step: int) -> tuple[int, int]:
        """Return (sequence, step inside it); `EMPTY` twice where the slot is empty."""
        if step >= self.ends[slot]:
            return EMPTY, EMPTY
        position = int(np.searchsorted(self.starts[slot], step, side="right")) - 1
        return int(self.sequences[slot][position]), step - int(self.starts[slot][position])

    def epoch_at(self, slot: int, step: int) -> int:
        """Return the epoch of the sequence that the slot reads in a step: this one."""
        return self.epoch

    def tail(self, slots: Iterable[int], start: int, stop: int) -> TailCounts:
        """Return the effect of the tail on `slots` in steps [start, stop), stop <= `num_steps`."""
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
    """Assigns whole sequences to slots: the longest first, each to the slot with the fewest steps.

    So slots end at most one sequence apart, and mostly much nearer, as the short ones come last. A
    slot belongs to one rank and one decoder, so every frame is decoded once. Of slots with equally
    many steps, one of each group comes first, so that groups get equally many sequences.

    A slot reads its sequences in the given order, or in a new random order each epoch. Lengths that
    differ by less than a quarter count as equal in the assignment; that order decides among them,
    and a second random order among slots with equally many steps, and among those of a group. So a
    shuffled epoch also combines other sequences in a batch, on other slots and ranks.
    """

    lengths: NDArray[np.int64]
    """int64 [sequences]: steps of each, at least 1."""
    slots: int
    """Slots of all ranks together."""
    group: int = 1
    """Consecutive slots that one rank or worker reads."""
    tail: Tail = "pad"
    shuffle: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        one_of(Tail, tail=self.tail)
        check_integers(0, seed=self.seed)
        if self.slots < 1:
            raise ConfigError(f"slots must be >= 1, got {self.slots}")
        if not len(self.lengths) or self.lengths.min() < 1:
            raise ConfigError("there must be at least one sequence, of one frame or more each")
        if self.tail == "drop" and len(self.lengths) < self.slots:
            raise ConfigError(
                f"{len(self.lengths)} clips do not fill {self.slots} slots (clips in a batch, over "
                "all ranks and workers), and tail='drop' leaves out batches that are not full; "
                f"ask for at most {len(self.lengths)} slots, for more seq_split, or for another "
                "tail"
            )

    def plan(self, epoch: int) -> SlotPlan | EndlessPlan:
        """Return the sequences of all slots in `epoch`. Takes microseconds for each sequence.

        With the tail `endless`: from this epoch on, for ever.
        """
        if self.tail == "endless":
            return EndlessPlan(lengths=self.lengths, queue=self._queue(epoch), slots=self.slots)
        order = self._order(len(self.lengths), epoch, RngStream.SHUFFLE)
        free = self._free(epoch)
        assigned: list[list[int]] = [[] for _ in free]
        position = {sequence: index for index, sequence in enumerate(order)}
        for sequence in sorted(order, key=self._rounded_length, reverse=True):
            self._assign(sequence, free, assigned)
        for slot_sequences in assigned:
            slot_sequences.sort(key=position.__getitem__)
        due = tuple(end for end, *_ in sorted(free, key=lambda entry: entry[-1]))
        num_steps = min(due) if self.tail == "drop" else max(due)
        ends = tuple(min(end, num_steps) for end in due)
        if self.tail == "refill":
            again = chain.from_iterable(repeat(order))
            while free[0][0] < num_steps:
                self._assign(next(again), free, assigned)
            ends = (num_steps,) * self.slots
        sequences = tuple(np.array(slot_sequences, np.int64) for slot_sequences in assigned)
        lengths = [self.lengths[slot_sequences] for slot_sequences in sequences]
        return SlotPlan(
            epoch=epoch,
            num_steps=num_steps,
            sequences=sequences,
            starts=tuple(np.cumsum(steps) - steps for steps in lengths),
            ends=ends,
            due=due,
        )

    def _queue(self, first_epoch: int) -> Iterator[tuple[int, int]]:
        """Yield (epoch, sequence): all sequences of each epoch, in its order."""
        for epoch in count(first_epoch):
            for sequence in self._order(len(self.lengths), epoch, RngStream.SHUFFLE):
                yield epoch, sequence

    def _free(self, epoch: int) -> list[tuple[int, int, int, int]]:
        """Return a heap of all slots: (assigned steps, position in its group, rank, slot)."""
        ranks = self._order(self.slots, epoch, RngStream.SLOT)
        free = []
        for first in range(0, self.slots, self.group):
            group = range(first, min(first + self.group, self.slots))
            ranked = sorted(group, key=ranks.__getitem__) if self.shuffle else group
            free += [(0, position, ranks[slot], slot) for position, slot in enumerate(ranked)]
        heapq.heapify(free)
        return free

    def _order(self, size: int, epoch: int, purpose: RngStream) -> list[int]:
        items = np.arange(size)
        if self.shuffle:
            items = Feistel(size=size, draws=CounterRng(self.seed, epoch, purpose)).at(items)
        order: list[int] = items.tolist()
        return order

    def _rounded_length(self, sequence: int) -> int:
        """Return a length rounded down, in integers, so that all machines agree."""
        length = int(self.lengths[sequence])
        spare = max(0, length.bit_length() - _COARSE_BITS)
        return length >> spare << spare

    def _assign(
        self, sequence: int, free: list[tuple[int, int, int, int]], assigned: list[list[int]]
    ) -> None:
        """Assign a sequence to the first slot of the heap."""
        steps, position, rank, slot = heapq.heappop(free)
        assigned[slot].append(sequence)
        heapq.heappush(free, (steps + int(self.lengths[sequence]), position, rank, slot))
