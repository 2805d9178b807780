"""What happens where some slots have nothing left to read, and how often it did."""

from dataclasses import dataclass
from typing import Literal

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
