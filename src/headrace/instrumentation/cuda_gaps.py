"""How long a GPU waited for data, by events in its own stream; nothing waits for the GPU."""

from collections import deque
from collections.abc import Callable
from typing import Any

import torch


class DeviceWaits:
    """Times the gaps of the current CUDA stream between what two steps gave it to do.

    An event stands behind all that a step queued, another one before all that the next step
    queues. Between them the stream is idle, or there is no time.
    """

    def __init__(self, new_event: Callable[[], Any] | None = None) -> None:
        """Wait for nothing yet; `new_event` gives a recorded event, None where no GPU is in use."""
        self._new_event = new_event or _cuda_event
        self._end: Any = None
        self._pairs: deque[tuple[int, Any, Any]] = deque()
        self.milliseconds: dict[int, float] = {}
        """Step → how long the GPU waited before it."""

    def step_ended(self) -> None:
        """All of a step is queued."""
        self._end = self._new_event()

    def step_begins(self, step: int) -> None:
        """The batch of `step` has come."""
        if self._end is not None:
            self._pairs.append((step, self._end, self._new_event()))
            self._end = None
            self._collect()

    def finish(self) -> None:
        """Wait for the last of it."""
        if self._pairs:
            self._pairs[-1][2].synchronize()
            self._collect()

    def _collect(self) -> None:
        """Read what the GPU has come past."""
        while self._pairs and self._pairs[0][2].query():
            step, end, begin = self._pairs.popleft()
            self.milliseconds[step] = max(0.0, float(end.elapsed_time(begin)))


def _cuda_event() -> Any:
    """An event in the current stream; None where CUDA is not in use."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event
