"""The totals of what was read as it came: what became of it, how late, how steadily."""

from collections import Counter
from collections.abc import Iterator

from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import count, counted, milliseconds, percent, seconds
from headrace.profiling.session import Session
from headrace.report.total import Total


def live_totals(session: Session, metrics: Metrics) -> Iterator[Total]:
    """Yield them; none for a session at full speed."""
    if session.pace == "full_speed":
        return
    yield from _conservation(session)
    yield from _latency(metrics)
    yield from _interruptions(session, metrics)


def drops_of(session: Session) -> Counter[str]:
    """Return the frames that ended on their way, by cause and stage; sinks are not on it."""
    found: Counter[str] = Counter()
    for stage in session.stages:
        if stage.role != "sink" or stage.name in session.steps.work_ms:
            found.update({f"{cause} at {stage.name}": n for cause, n in stage.dropped.items()})
    return found


def _conservation(session: Session) -> Iterator[Total]:
    items = session.items
    if items is None:
        return
    yield Total(
        label="Arrived",
        value=counted(items.arrived, "frame"),
        reading=f"= {count(items.delivered)} delivered + {count(items.dropped)} dropped + "
        f"{count(items.in_flight)} in flight",
    )
    drops = drops_of(session)
    yield Total(
        label="Dropped",
        value=percent(items.dropped / items.arrived) if items.arrived else "0 %",
        reading=", ".join(f"{count(n)} {words}" for words, n in drops.most_common()) or "none",
    )


def _latency(metrics: Metrics) -> Iterator[Total]:
    if metrics.latency is not None:
        spread, oldest = metrics.latency.ms, metrics.latency.oldest_ms
        yield Total(
            label="Latency",
            value=milliseconds(spread.p50),
            reading=f"median from {metrics.latency.base}, of {counted(spread.count, 'step')}; "
            f"p95 {milliseconds(spread.p95)}, p99 {milliseconds(spread.p99)}",
        )
        if oldest is not None:
            yield Total(
                label="Oldest frame",
                value=milliseconds(oldest.p50),
                reading="median age of the oldest frame of a clip or batch; "
                f"p95 {milliseconds(oldest.p95)}",
            )
    if metrics.capture_ms is not None:
        captured = metrics.capture_ms
        clocks = "; below 0: the two clocks differ" if captured.minimum < 0 else ""
        yield Total(
            label="Capture latency",
            value=milliseconds(captured.p50),
            reading=f"median from capture by the sender's clock, of "
            f"{counted(captured.count, 'step')}; p95 {milliseconds(captured.p95)}{clocks}",
        )


def _interruptions(session: Session, metrics: Metrics) -> Iterator[Total]:
    kinds = Counter(event.kind for event in session.events)
    if metrics.stalls is not None:
        lost = f", {seconds(metrics.stalls.seconds)} together" if metrics.stalls.count else ""
        yield Total(
            label="Stalls",
            value=count(metrics.stalls.count),
            reading=f"of 2 s or more without output{lost}; of sources: "
            f"{counted(kinds['stalled'], 'stall')}, {counted(kinds['reconnected'], 'reconnect')}",
        )
