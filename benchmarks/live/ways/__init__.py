"""One file for each way to show a stream: read, run the model, show, and go on when it is lost."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.live.net import Net


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What is shown, and until when."""

    url: str
    net: Net
    until_ns: int
    """By `time.perf_counter_ns`."""
    max_staleness: str | None
    """Age that is asked for, by those who can be asked."""
    show: Callable[[NDArray[np.uint8]], None]
    """Takes each picture when the model is done with it: uint8 [H, W, 3], RGB or BGR."""
    note: Callable[[str], None]
    """Hears of each loss: "stalled", "lost"."""

    @property
    def is_over(self) -> bool:
        """It is time to end."""
        return perf_counter_ns() >= self.until_ns


class Way(Protocol):
    """A module of this package."""

    PACKAGES: tuple[str, ...]
    """Whose versions matter."""

    def run(self, stream: Stream) -> dict[str, Any]:
        """Show the stream until it is over; return what else there is to tell."""
