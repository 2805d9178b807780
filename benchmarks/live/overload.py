"""A source that is three times too fast for the model, for a minute."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.live.record import Overloaded, Part, Quantiles, Series
from benchmarks.media import FRAME_RATE
from benchmarks.record import origin
from benchmarks.runner import Ask, WorkerError


@dataclass(frozen=True, kw_only=True)
class OverloadScale:
    """How much is measured."""

    seconds: float = 60.0
    warm_up_seconds: float = 10.0
    model_ms: float = 100.0
    max_staleness_ms: float = 200.0


def measure_overload(clip: Path, scale: OverloadScale, ask: Ask) -> Overloaded:
    """Ask a process; the clip must be as long."""
    made = origin(
        {
            "seconds": scale.seconds,
            "model_ms": scale.model_ms,
            "max_staleness_ms": scale.max_staleness_ms,
            "clip": clip.name,
        }
    )
    found = ask(
        {
            "question": "live_overload",
            "cores": None,
            "clip": str(clip.resolve()),
            "seconds": scale.seconds,
            "model_seconds": scale.model_ms / 1e3,
            "max_staleness_seconds": scale.max_staleness_ms / 1e3,
        }
    )
    ages = Quantiles.of(found["ages_ms"])
    if ages is None:
        raise WorkerError("no frame was shown under overload")
    return Overloaded(
        provenance=made,
        others_share=Part.share_of([found["meter"]]),
        seconds=scale.seconds,
        source_fps=FRAME_RATE,
        model_ms=scale.model_ms,
        max_staleness_ms=scale.max_staleness_ms,
        age_ms=ages,
        arrived=found["arrived"],
        delivered=found["delivered"],
        in_flight=found["in_flight"],
        drops=found["drops"],
        rss_bytes=Series(
            at_seconds=tuple(round(at, 3) for at, _ in found["rss"]),
            values=tuple(float(size) for _, size in found["rss"]),
        ),
        warm_up_seconds=scale.warm_up_seconds,
    )
