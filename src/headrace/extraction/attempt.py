"""A run of an extraction, whatever it extracts: how it ended, how long it took, what it used."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import HeadraceError
from headrace.profiling.session import Outcome, Session
from headrace.profiling.setup import StartUpPart
from headrace.profiling.usage import ProcessorShare
from headrace.runtime.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a run ended."""

    outcome: Outcome
    error: str | None = None

    @classmethod
    def of(cls, work: Callable[[], bool]) -> "Ended":
        """Run `work`, which says whether it was interrupted; return how it ended."""
        try:
            return cls(outcome="interrupted" if work() else "complete")
        except KeyboardInterrupt:
            return cls(outcome="interrupted")
        except HeadraceError as failure:
            return cls(outcome="failed", error=str(failure).splitlines()[0])


class RunWatch:
    """What a run takes, from here on."""

    def __init__(self, clock: Clock) -> None:
        self.start_ns = clock.now_ns()
        self._clock, self._share = clock, ProcessorShare()

    def written_on(self, session: Session, facts: Mapping[str, Any]) -> Session:
        """Return the session with how long it took, what it used, and `facts`."""
        return session.model_copy(
            update={
                "wall_seconds": (self._clock.now_ns() - self.start_ns) / 1e9,
                "others_cpu_share": self._share.of_others(),
                "usage": self._share.used(),
                **facts,
            }
        )


def startup_parts(seconds: Mapping[str, float | None]) -> tuple[StartUpPart, ...]:
    """Return what passed before a run, by name; what is not known is left out."""
    return tuple(
        StartUpPart(name=name, seconds=max(0.0, each))
        for name, each in seconds.items()
        if each is not None
    )
