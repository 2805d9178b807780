"""Recorder: gathers what is known of a run while it goes, and returns it as a session."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from headrace.errors import ConfigError, HeadraceError, first_line
from headrace.profiling.input_records import NOT_COUNTED
from headrace.profiling.provenance import Provenance
from headrace.profiling.resource_usage import ProcessorShare
from headrace.profiling.run_records import StartUpPart
from headrace.profiling.session import Kind, Outcome, Session
from headrace.profiling.steps import LatestSteps, Step, Steps
from headrace.runtime.clock import Clock

OnRecord = Callable[[Session], None]
"""Called with the record of a run so far; may raise ConfigError where it cannot be kept."""

_WARMUP_STEPS: Final = 1
_FIRST_SECONDS: Final = 1.0
_MOST_SECONDS: Final = 10.0
_COST_SHARE: Final = 0.01
"""Share of a run's time that its checkpoints may take: at 100,000 steps each takes about 0.3 s."""


class Recorder:
    """One session in the making, from the start of a run on. Not thread-safe.

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
        most_steps: int | None = None,
        on_record: OnRecord | None = None,
    ) -> None:
        """Start the run now; the first checkpoint is due after 1 s, none without `on_record`.

        Args:
            kind: Kind of the session.
            provenance: Configuration, machine and command of the run.
            clock: Clock of the run.
            startup: Parts done before the run.
            most_steps: Steps that are kept, the latest; None: all.
            on_record: Receives the record now and then, for a process that may be killed.
        """
        self.provenance = provenance
        self.clock = clock
        self.steps: list[Step] | LatestSteps = []
        """Steps so far."""
        if most_steps is not None:
            self.steps = LatestSteps(most_steps)
        self.outcome: Outcome = "complete"
        self.error: str | None = None
        self.failure: HeadraceError | None = None
        """What ended the run early, if that was an error."""
        self._kind = kind
        self._startup = startup
        self._on_record = on_record
        self.start_ns = clock.now_ns()
        self._share = ProcessorShare()
        self._due_ns = self.start_ns + round(_FIRST_SECONDS * 1e9)

    def add(self, step: Step) -> None:
        """Record a step that has just come out."""
        self.steps.append(step)

    @contextmanager
    def ending(self, words: Callable[[HeadraceError], str] = first_line) -> Iterator[None]:
        """Record Ctrl-C or an error of headrace that ends the block, worded by `words`.

        The first one of several blocks is the outcome.
        """
        try:
            yield
        except KeyboardInterrupt:
            self._end("interrupted")
        except HeadraceError as failure:
            self._end("failed", words(failure), failure)

    def checkpoint(self, parts: Callable[[], Mapping[str, Any]]) -> None:
        """Send the record so far, as an interrupted run, if one is due.

        Checkpoints are due as the age of the run doubles, then every 10 s. A record that cannot be
        written now is reported at the end, when the whole record is written.

        Args:
            parts: Returns the fields of the session that `session` takes.
        """
        now_ns = self.clock.now_ns()
        if self._on_record is None or now_ns < self._due_ns:
            return
        session = self.session(**parts())
        words = f"killed, or still running: recorded {session.wall_seconds:.1f} s after it began"
        with suppress(ConfigError):
            self._on_record(session.model_copy(update={"outcome": "interrupted", "error": words}))
        cost_ns = self.clock.now_ns() - now_ns
        wait_ns = max(min(now_ns - self.start_ns, _MOST_SECONDS * 1e9), cost_ns / _COST_SHARE)
        self._due_ns = now_ns + round(wait_ns)

    def session(self, **parts: Any) -> Session:
        """Return the record as it is now; `parts` are its other fields, or replace common ones."""
        common: dict[str, Any] = {
            "kind": self._kind,
            "provenance": self.provenance,
            "outcome": self.outcome,
            "error": self.error,
            "wall_seconds": (self.clock.now_ns() - self.start_ns) / 1e9,
            "startup": self._startup,
            "others_cpu_share": self._share.of_others(),
            "usage": self._share.used(),
            "warmup_steps": _WARMUP_STEPS if len(self.steps) > 2 * _WARMUP_STEPS else 0,
            "steps": Steps.of(self.steps),
            "decode": NOT_COUNTED,
        }
        return Session(**{**common, **parts})

    def _end(
        self, outcome: Outcome, error: str | None = None, failure: HeadraceError | None = None
    ) -> None:
        if self.outcome == "complete":
            self.outcome, self.error, self.failure = outcome, error, failure
