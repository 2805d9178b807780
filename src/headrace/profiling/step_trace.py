"""The trace of a run's first steps: what its threads did, and what PyTorch did in them."""

from typing import Final

from headrace.profiling.torch_events import TorchEvents
from headrace.profiling.trace import Event, Journey, row_names, trace_events
from headrace.runtime.clock import Clock
from headrace.runtime.marks import RangeRecorder

WARMUP_STEPS: Final = 1
"""Steps that come out before PyTorch's work is recorded."""


class StepTrace:
    """Records what is marked from the start on, and PyTorch's work after the warm-up.

    Both end with the last step of the trace, or when it is closed. For one thread.
    """

    def __init__(self, steps: int, clock: Clock) -> None:
        """Record `steps` steps after the warm-up."""
        self.marks = RangeRecorder(clock)
        """What the run is to tell of its work."""
        self.began_ns: int | None = None
        """When PyTorch's work began to be recorded."""
        self._clock = clock
        self._steps = steps
        self._torch = TorchEvents(clock)
        self._journeys: list[Journey] = []
        self._is_over = False

    @property
    def steps(self) -> int:
        """Steps whose work of PyTorch was recorded."""
        return max(0, len(self._journeys) - WARMUP_STEPS)

    def add(self, journey: Journey) -> None:
        """One step has come out."""
        if self._is_over:
            return
        self._journeys.append(journey)
        if len(self._journeys) == WARMUP_STEPS:
            began_ns = self._clock.now_ns()
            self._torch.start()
            self.began_ns = began_ns
        if len(self._journeys) == WARMUP_STEPS + self._steps:
            self.close()

    def close(self) -> None:
        """Record no more."""
        if not self._is_over:
            self._is_over = True
            # In this order: what PyTorch did before it stopped lies in a range.
            self._torch.stop()
            self.marks.stop()

    def events(self, *, origin_ns: int) -> list[Event]:
        """Return the trace, once it is closed and the run's threads are done.

        Args:
            origin_ns: What it counts from.
        """
        ranges = self.marks.ranges
        events = trace_events(ranges, self._journeys, self.marks.parts, origin_ns=origin_ns)
        return events + self._torch.events(row_names(ranges), origin_ns=origin_ns)
