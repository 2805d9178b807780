"""The latest of many numbers, at eight bytes each."""

from array import array

import numpy as np
from numpy.typing import NDArray


class Recent:
    """Keeps the last `most` numbers; memory grows until then, and no more.

    Integers come back as floats: exact up to 2**53, which nanoseconds reach after 104 days.
    """

    def __init__(self, most: int) -> None:
        """None yet."""
        self._most = most
        self._numbers = array("d")
        self._oldest = 0

    def append(self, number: float) -> None:
        """Keep a number, in place of the oldest where there are as many as are kept."""
        if len(self._numbers) < self._most:
            self._numbers.append(number)
            return
        self._numbers[self._oldest] = number
        self._oldest = (self._oldest + 1) % self._most

    def __len__(self) -> int:
        return len(self._numbers)

    def values(self) -> NDArray[np.float64]:
        """Return them, float64 [n], the oldest first."""
        return np.roll(np.array(self._numbers), -self._oldest)
