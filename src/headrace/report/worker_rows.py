"""The workers of an extraction as rows of a table."""

from typing import Final

from headrace.profiling.number_format import percent
from headrace.profiling.session import Session

HEADS: Final = ("worker", "steps", "frames", "frames/s", "at work", "queue")


def worker_rows(session: Session) -> list[tuple[str, ...]]:
    """Return a row for each worker that did something: see `HEADS`."""
    return [
        (
            worker.name,
            f"{worker.steps:,}",
            f"{worker.frames:,}",
            f"{worker.throughput:.1f}",
            percent(min(1.0, worker.busy_seconds / worker.span_seconds))
            if worker.span_seconds
            else "",
            f"{worker.queue_seconds:.1f} s",
        )
        for worker in session.workers
    ]
