"""Recorder: collects the steps and the outcome of a run; returns its session."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from headrace.errors import ConfigError, HeadraceError, first_line
from headrace.profiling.input_records import NOT_COUNTED
from headrace.profiling.provenance import Provenance
from headrace.profiling.resource_usage import (
    ProcessorShare,
    peak_gpu_bytes,
    peak_memory_bytes,
)
from headrace.profiling.run_records import StartUpPart, Usage
from headrace.profiling.session import Kind, LatestSteps, Outcome, Session, Step, Steps
from headrace.runtime.clock import Clock

OnRecord = Callable[[Session], None]
"""Called with the record of a run so far; raises ConfigError if it cannot write the record."""

_LOGGER: Final = logging.getLogger(__name__)
"""Receives tracebacks of errors that end a run, for --debug."""
_WARMUP_STEPS: Final = 1
_FIRST_SECONDS: Final = 1.0
"""Age of a run at its first checkpoint."""
_MAX_SECONDS: Final = 10.0
"""Max seconds between checkpoints, unless their cost is high."""
_MAX_COST: Final = 0.01
"""Max share of a run's time for checkpoints; one takes about 0.3 s at 100,000 steps."""


class Recorder:
    """Record of one run, from its start. Not thread-safe.

    recorder = Recorder("run", provenance, clock=clock)
    with recorder.ending():
        ...
        recorder.add(step)
        recorder.checkpoint(parts)
    session = recorder.session(**parts())
    """

    def __init__(
        self,
        kind: Kind,
        provenance: Provenance,
        *,
        clock: Clock,
        startup: tuple[StartUpPart, ...] = (),
        max_steps: int | None = None,
        on_record: OnRecord | None = None,
    ) -> None:
        """Start the run now; with `on_record`, the first checkpoint is due after 1 s.

        Args:
            kind: Kind of the session.
            provenance: Configuration, machine and command of the run.
            clock: Clock of the run.
            startup: Parts of the start-up.
            max_steps: Number of latest steps to keep; None: all.
            on_record: Receives checkpoints, in case the process is killed.
        """
        self.provenance = provenance
        self.clock = clock
        self.steps: list[Step] | LatestSteps = []
        """Recorded steps."""
        if max_steps is not None:
            self.steps = LatestSteps(max_steps)
        self.outcome: Outcome = "complete"
        self.error: str | None = None
        self.failure: HeadraceError | None = None
        """Error that ended the run early."""
        self._kind = kind
        self._startup = startup
        self._on_record = on_record
        self.start_ns = clock.now_ns()
        self._share = ProcessorShare()
        self._due_ns = self.start_ns + round(_FIRST_SECONDS * 1e9)

    def add(self, step: Step) -> None:
        """Record a step at its output."""
        self.steps.append(step)

    @contextmanager
    def ending(self, describe: Callable[[HeadraceError], str] = first_line) -> Iterator[None]:
        """Record Ctrl-C, or an error of headrace, as the outcome; `describe` returns its message.

        After several blocks, the first error is the outcome.
        """
        try:
            yield
        except KeyboardInterrupt:
            self._end("interrupted")
        except HeadraceError as failure:
            self._end("failed", describe(failure), failure)

    def checkpoint(self, parts: Callable[[], Mapping[str, Any]]) -> None:
        """Send the record so far, as that of an interrupted run, if a checkpoint is due.

        A checkpoint is due when the age of the run has doubled, later every 10 s. A failure to
        write it is ignored, because writing the final record reports it.

        Args:
            parts: Returns the arguments of `session`.
        """
        now_ns = self.clock.now_ns()
        if self._on_record is None or now_ns < self._due_ns:
            return
        session = self.session(**parts())
        error = f"killed, or still running: recorded {session.wall_seconds:.1f} s after its start"
        with suppress(ConfigError):
            self._on_record(session.model_copy(update={"outcome": "interrupted", "error": error}))
        cost_ns = self.clock.now_ns() - now_ns
        wait_ns = max(min(now_ns - self.start_ns, _MAX_SECONDS * 1e9), cost_ns / _MAX_COST)
        self._due_ns = now_ns + round(wait_ns)

    def session(self, **parts: Any) -> Session:
        """Return the record so far; `parts` are further fields, and replace common fields."""
        common: dict[str, Any] = {
            "kind": self._kind,
            "provenance": self.provenance,
            "outcome": self.outcome,
            "error": self.error,
            "wall_seconds": (self.clock.now_ns() - self.start_ns) / 1e9,
            "startup": self._startup,
            "others_cpu_share": self._share.of_others(),
            "usage": Usage(
                cpu_seconds=self._share.own_seconds(),
                peak_memory_bytes=peak_memory_bytes(),
                peak_gpu_bytes=peak_gpu_bytes(),
            ),
            "warmup_steps": _WARMUP_STEPS if len(self.steps) > 2 * _WARMUP_STEPS else 0,
            "steps": Steps.of(self.steps),
            "decode": NOT_COUNTED,
        }
        return Session(**{**common, **parts})

    def _end(
        self, outcome: Outcome, error: str | None = None, failure: HeadraceError | None = None
    ) -> None:
        if failure is not None:
            _LOGGER.debug("the run failed", exc_info=failure)
        if self.outcome == "complete":
            self.outcome, self.error, self.failure = outcome, error, failure
