"""Prometheus metrics of a live run."""

from collections.abc import Iterable, Iterator
from typing import Final, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.sinks.web.status import LiveStatus, SourceState

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_COUNTER, _GAUGE = CounterMetricFamily, GaugeMetricFamily
_Rows = Iterable[tuple[str | float | None, ...]]
"""Values of the labels, then the value; None: no sample."""
_Family = tuple[type[CounterMetricFamily | GaugeMetricFamily], str, str, tuple[str, ...], _Rows]
"""Kind, name, help, names of the labels, samples."""


def metrics_text(status: LiveStatus) -> bytes:
    """Return the metrics of a run in the text format, in base units: seconds and ratios."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(status))
    return generate_latest(registry)


class _Collector:
    """Collector of the metrics of one status."""

    def __init__(self, status: LiveStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        for kind, name, help, labels, rows in (*_run(self._status), *_parts(self._status)):
            family = kind(f"headrace_{name}", help, labels=labels)
            for *values, number in rows:
                if number is not None:
                    family.add_metric([str(value) for value in values], float(number))
            yield family


def _run(status: LiveStatus) -> Iterator[_Family]:
    """Yield the metrics of the whole run."""
    frames, latency = status.frames, status.latency
    drops = [(drop.stage, drop.cause, drop.items) for drop in status.drops]
    lost = [(drop.stage, drop.cause, drop.items) for drop in status.sink_drops]
    yield _COUNTER, "frames_arrived", "Frames that arrived.", (), [(frames.arrived,)]
    yield _COUNTER, "frames_delivered", "Frames with results.", (), [(frames.delivered,)]
    help = "Dropped frames, by stage and reason."
    yield _COUNTER, "frames_dropped", help, ("stage", "reason"), drops
    yield _GAUGE, "frames_in_flight", "Frames in the pipeline.", (), [(frames.in_flight,)]
    help = "Results dropped by a sink, by sink and reason."
    yield _COUNTER, "sink_results_dropped", help, ("sink", "reason"), lost
    yield _GAUGE, "fps", "Frames with results in the last second.", (), [(status.fps,)]
    silence = status.seconds_since_last_result
    if silence is not None:
        help = "Seconds since the last result."
        yield _GAUGE, "seconds_since_last_result", help, (), [(silence,)]
    if status.jitter_ms is not None:
        help = "Latency jitter: std of the intervals between results."
        yield _GAUGE, "latency_jitter_seconds", help, (), [(status.jitter_ms / 1e3,)]
    if latency is not None:
        help = f"Age of results over the last {latency.window_seconds:g} s; absent: n too small."
        rows = _quantiles(latency.base, latency.p50_ms, latency.p95_ms)
        yield _GAUGE, "latency_seconds", help, ("since", "quantile"), rows


def _parts(status: LiveStatus) -> Iterator[_Family]:
    """Yield the metrics of each source, stage and queue."""
    sources, stages, queues = status.sources, status.stages, status.queues
    states = [(s.name, state, s.state == state) for s in sources for state in get_args(SourceState)]
    label = ("source",)
    yield _GAUGE, "source_state", "1 for the current state of a source.", (*label, "state"), states
    help, rows = "Frames that arrived in the last second.", [(s.name, s.fps) for s in sources]
    yield _GAUGE, "source_fps", help, label, rows
    help, rows = "Reconnections of a source.", [(s.name, s.reconnects) for s in sources]
    yield _COUNTER, "source_reconnects", help, label, rows
    help, rows = "Stalls of a connected source.", [(s.name, s.stalls) for s in sources]
    yield _COUNTER, "source_stalls", help, label, rows
    help, rows = "Busy share of a stage's time.", [(stage.name, stage.busy) for stage in stages]
    yield _GAUGE, "stage_busy_ratio", help, ("stage",), rows
    times = [row for stage in stages for row in _quantiles(stage.name, stage.p50_ms, stage.p95_ms)]
    help = "Time of a stage for one step; absent: n too small."
    yield _GAUGE, "stage_seconds", help, ("stage", "quantile"), times
    help, rows = "Items in a queue.", [(queue.name, queue.depth) for queue in queues]
    yield _GAUGE, "queue_depth", help, ("queue",), rows
    help, rows = (
        "Capacity of a queue, in items.",
        [(queue.name, queue.capacity) for queue in queues],
    )
    yield _GAUGE, "queue_capacity", help, ("queue",), rows


def _quantiles(name: str, p50_ms: float | None, p95_ms: float | None) -> _Rows:
    rows = (("0.5", p50_ms), ("0.95", p95_ms))
    return [(name, quantile, None if ms is None else ms / 1e3) for quantile, ms in rows]
