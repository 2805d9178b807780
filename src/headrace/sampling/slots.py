"""Schedule of sequences on batch slots; a slot reads whole sequences, from start to end."""

import heapq
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, count, repeat
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sampling.counter_rng import CounterRng, Feistel, RngStream
from headrace.units import check_integers, one_of

Tail = Literal["pad", "drop", "refill", "endless"]
"""Rule for the end of an epoch, when some slots have no sequence left: `pad` leaves them empty, so
that each frame occurs exactly once; `drop` ends the epoch at the first empty slot; `refill` reads
sequences again, so that every batch is full; `endless` continues with the next epoch's
sequences."""

NO_LENGTH = "with tail='endless' has no length, as it never ends; count the steps of training"


@dataclass(frozen=True, kw_only=True)
class TailCounts:
    """Effect of the tail on some slots, in moments; a moment is one slot in one step."""

    empty: int = 0
    """Moments of empty slots, with `pad`."""
    repeated: int = 0
    """Moments that are read again, with `refill`."""
    dropped: int = 0
    """Moments that are never read, with `drop`; counted with the last step."""

    def __add__(self, other: "TailCounts") -> "TailCounts":
        return TailCounts(
            empty=self.empty + other.empty,
            repeated=self.repeated + other.repeated,
            dropped=self.dropped + other.dropped,
        )


EMPTY = -1
"""Sequence number, and step, of an empty slot."""

ORDER = 2
"""Version of the order. Must be increased if the order for a seed changes, so that older states are
rejected."""

_COARSE_BITS = 3
"""Leading bits in which lengths are compared; equal lengths differ by less than 1/4."""


@dataclass(kw_only=True, eq=False)
class SlotPlan:
    """Sequences of every slot in one epoch, or without end with the tail `endless`.

    An endless plan is for one thread: lookups assign sequences on demand, in a few microseconds and
    100 bytes each.
    """

    num_steps: int
    """Batches in the epoch; the same for all ranks."""
    sequences: list[list[int]]
    """Per slot: its sequences, in order."""
    starts: list[list[int]]
    """Per slot: first step of each sequence, ascending."""
    epochs: list[list[int]]
    """Per slot: epoch whose order each sequence belongs to."""
    ends: list[int]
    """Per slot: first step after its last sequence."""
    due: tuple[int, ...] = ()
    """Per slot: total steps of its sequences, without the effect of the tail."""
    assignment: Iterator[None] | None = None
    """Assigns one more sequence per item; None: all are assigned."""

    def at(self, slot: int, step: int) -> tuple[int, int]:
        """Return (sequence, step in the sequence); `EMPTY` twice if the slot is empty."""
        position = self._position(slot, step)
        if step >= self.ends[slot]:
            return EMPTY, EMPTY
        return self.sequences[slot][position], step - self.starts[slot][position]

    def epoch_at(self, slot: int, step: int) -> int:
        """Return the epoch of the sequence that the slot reads in a step."""
        return self.epochs[slot][self._position(slot, step)]

    def _position(self, slot: int, step: int) -> int:
        while self.assignment is not None and self.ends[slot] <= step:
            next(self.assignment)
        return bisect_right(self.starts[slot], step) - 1

    def tail(self, slots: Iterable[int], start: int, stop: int) -> TailCounts:
        """Return the effect of the tail on `slots` in steps [start, stop), stop <= `num_steps`."""
        if self.assignment is not None:
            return TailCounts()
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

    So slots end at most one sequence apart, usually much less, because short sequences come last. A
    slot belongs to one rank and one decoder, so every frame is decoded once. Among slots with
    equally many steps, one of each group comes first, so that groups get equally many sequences.

    A slot reads its sequences in the given order, or in a new random order in each epoch. Lengths
    that differ by less than a quarter count as equal in the assignment; ties are broken by that
    order. Ties among slots, and among slots of a group, are broken by a second random order. So
    each shuffled epoch combines different sequences in a batch, on different slots and ranks.
    """

    lengths: NDArray[np.int64]
    """int64 [sequences]: steps of each sequence, >= 1."""
    slots: int
    """Number of slots of all ranks together."""
    group: int = 1
    """Number of consecutive slots that one rank or worker reads."""
    tail: Tail = "pad"
    shuffle: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        one_of(Tail, tail=self.tail)
        check_integers(0, seed=self.seed)
        if self.slots < 1:
            raise ConfigError(f"slots must be >= 1, got {self.slots}")
        if not len(self.lengths) or self.lengths.min() < 1:
            raise ConfigError("there must be at least one sequence, each of one frame or more")
        if self.tail == "drop" and len(self.lengths) < self.slots:
            raise ConfigError(
                f"{len(self.lengths)} clips do not fill {self.slots} slots (clips in a batch, over "
                "all ranks and workers), and tail='drop' drops batches that are not full; choose "
                f"at most {len(self.lengths)} slots, a higher seq_split, or another tail"
            )

    def plan(self, epoch: int) -> SlotPlan:
        """Return the sequences of all slots in `epoch`. Takes microseconds per sequence.

        With the tail `endless`: from this epoch on, without end.
        """
        if self.tail == "endless":
            plan = SlotPlan(
                num_steps=sys.maxsize,
                sequences=[[] for _ in range(self.slots)],
                starts=[[] for _ in range(self.slots)],
                epochs=[[] for _ in range(self.slots)],
                ends=[0] * self.slots,
            )
            plan.assignment = self._assignment(plan, epoch)
            return plan
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
        ends = [min(end, num_steps) for end in due]
        if self.tail == "refill":
            again = chain.from_iterable(repeat(order))
            while free[0][0] < num_steps:
                self._assign(next(again), free, assigned)
            ends = [num_steps] * self.slots
        lengths = [self.lengths[slot_sequences] for slot_sequences in assigned]
        return SlotPlan(
            num_steps=num_steps,
            sequences=assigned,
            starts=[(np.cumsum(steps) - steps).tolist() for steps in lengths],
            epochs=[[epoch] * len(steps) for steps in lengths],
            ends=ends,
            due=due,
        )

    def _assignment(self, plan: SlotPlan, first_epoch: int) -> Iterator[None]:
        """Assign, per item, the next sequence of a queue to the slot that is free first.

        The queue has every sequence once per epoch, in the order of that epoch, so the counts of
        sequences differ by at most 1.
        """
        free = [(0, slot) for slot in range(self.slots)]
        for epoch in count(first_epoch):
            for sequence in self._order(len(self.lengths), epoch, RngStream.SHUFFLE):
                start, slot = heapq.heappop(free)
                plan.starts[slot].append(start)
                plan.sequences[slot].append(sequence)
                plan.epochs[slot].append(epoch)
                plan.ends[slot] = start + int(self.lengths[sequence])
                heapq.heappush(free, (plan.ends[slot], slot))
                yield

    def _free(self, epoch: int) -> list[tuple[int, int, int, int]]:
        """Return a heap of all slots: (assigned steps, position in its group, rank, slot)."""
        ranks = self._order(self.slots, epoch, RngStream.SLOT)
        free = []
        for first in range(0, self.slots, self.group):
            group = range(first, min(first + self.group, self.slots))
            ordered = sorted(group, key=ranks.__getitem__) if self.shuffle else group
            free += [(0, position, ranks[slot], slot) for position, slot in enumerate(ordered)]
        heapq.heapify(free)
        return free

    def _order(self, size: int, epoch: int, purpose: RngStream) -> list[int]:
        items = np.arange(size)
        if self.shuffle:
            items = Feistel(size=size, draws=CounterRng(self.seed, epoch, purpose)).at(items)
        order: list[int] = items.tolist()
        return order

    def _rounded_length(self, sequence: int) -> int:
        """Return a sequence's length, rounded down to its leading bits; exact on all machines."""
        length = int(self.lengths[sequence])
        low_bits = max(0, length.bit_length() - _COARSE_BITS)
        return length >> low_bits << low_bits

    def _assign(
        self, sequence: int, free: list[tuple[int, int, int, int]], assigned: list[list[int]]
    ) -> None:
        """Assign a sequence to the first slot of the heap."""
        steps, position, rank, slot = heapq.heappop(free)
        assigned[slot].append(sequence)
        heapq.heappush(free, (steps + int(self.lengths[sequence]), position, rank, slot))
