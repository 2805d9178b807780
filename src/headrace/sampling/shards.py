"""Which slots of an epoch each rank delivers: slot n belongs to rank n mod ranks."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.sizes import check_integers, one_of

Remainder = Literal["repeat", "drop"]
"""What happens to slots that do not share out evenly."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One rank's part of every epoch: `order.at(shard.slots(start, stop, len(order)))`.

    The order of the whole epoch is dealt to the ranks, not the videos, so what all ranks deliver
    together in a step does not depend on their number: splitting videos would make each rank
    sample from its own few. All ranks get equally many slots.
    """

    rank: int = 0
    ranks: int = 1
    remainder: Remainder = "repeat"
    """`repeat`: the epoch's first slots come again at the end, at most ranks - 1 of them. `drop`:
    as many of its last slots are left out."""

    def __post_init__(self) -> None:
        check_integers(0, rank=self.rank, ranks=self.ranks)
        if not 0 <= self.rank < self.ranks:
            raise ConfigError(
                f"rank must be at least 0 and below the number of ranks, got rank {self.rank} "
                f"of {self.ranks}"
            )
        one_of(Remainder, remainder=self.remainder)

    def count(self, length: int, skip: int = 0) -> int:
        """Return how many slots each rank gets of an epoch of `length`; the same for all ranks.

        `skip` slots of the epoch were delivered before, by however many ranks there were.
        """
        left = length - skip
        return left // self.ranks if self.remainder == "drop" else -(-left // self.ranks)

    def slots(self, start: int, stop: int, length: int, skip: int = 0) -> NDArray[np.int64]:
        """Return slots number [start, stop) of this rank, int64 [stop - start] in [0, length).

        Raises:
            ConfigError: this rank does not get that many slots.
        """
        count = self.count(length, skip)
        if not 0 <= start <= stop <= count:
            raise ConfigError(
                f"slots [{start}, {stop}) were asked of rank {self.rank}, which has {count} in an "
                f"epoch of {length} of which {skip} are skipped"
            )
        return self._places(start, stop, skip) % length

    def is_repeated(self, start: int, stop: int, length: int, skip: int = 0) -> NDArray[np.bool_]:
        """Return which of slots number [start, stop) of this rank were delivered before, bool."""
        return self._places(start, stop, skip) >= length

    def _places(self, start: int, stop: int, skip: int) -> NDArray[np.int64]:
        return skip + np.arange(start, stop, dtype=np.int64) * self.ranks + self.rank
