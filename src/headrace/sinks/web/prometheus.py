"""Prometheus metrics of a live run."""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.sinks.web.status import LiveStatus, SourceState

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_STATES: Final[tuple[SourceState, ...]] = (
    "connecting",
    "live",
    "stalled",
    "reconnecting",
    "ended",
    "failed",
)


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
        status = self._status
        yield from _flow(status)
        yield from _results(status)
        yield from _sources(status)
        yield from _stages(status)


def _flow(status: LiveStatus) -> Iterator[Metric]:
    frames = status.frames
    yield _counter("frames_arrived", "Frames that came in.", [((), frames.arrived)])
    yield _counter("frames_delivered", "Frames whose results came out.", [((), frames.delivered)])
    yield _counter(
        "frames_dropped",
        "Frames that ended on their way, by stage and reason.",
        [((drop.stage, drop.cause), drop.items) for drop in status.drops],
        ("stage", "reason"),
    )
    yield _gauge("frames_in_flight", "Frames on their way.", [((), frames.in_flight)])
    yield _counter(
        "sink_results_dropped",
        "Results that a sink did not get, by sink and reason.",
        [((drop.stage, drop.cause), drop.items) for drop in status.sink_drops],
        ("sink", "reason"),
    )


def _results(status: LiveStatus) -> Iterator[Metric]:
    yield _gauge("fps", "Frames whose results came out in the last second.", [((), status.fps)])
    if status.seconds_since_last_result is not None:
        help_text = "Seconds since the last result."
        yield _gauge(
            "seconds_since_last_result", help_text, [((), status.seconds_since_last_result)]
        )
    if status.jitter_ms is not None:
        help_text = "Latency jitter: std of the intervals between results."
        yield _gauge("latency_jitter_seconds", help_text, [((), status.jitter_ms / 1e3)])
    latency = status.latency
    if latency is not None:
        quantiles = (("0.5", latency.p50_ms), ("0.95", latency.p95_ms))
        yield _gauge(
            "latency_seconds",
            f"Age of results over the last {latency.window_seconds:g} s; absent: n too small.",
            [((latency.base, q), ms / 1e3) for q, ms in quantiles if ms is not None],
            ("since", "quantile"),
        )


def _sources(status: LiveStatus) -> Iterator[Metric]:
    sources, labels = status.sources, ("source",)
    yield _gauge(
        "source_state",
        "1 for the state a source is in.",
        [
            ((source.name, state), float(source.state == state))
            for source in sources
            for state in _STATES
        ],
        ("source", "state"),
    )
    rows = [((source.name,), source.fps) for source in sources]
    yield _gauge("source_fps", "Frames that arrived in the last second.", rows, labels)
    rows = [((source.name,), source.reconnects) for source in sources]
    yield _counter("source_reconnects", "Connections that were made anew.", rows, labels)
    rows = [((source.name,), source.stalls) for source in sources]
    yield _counter("source_stalls", "Times its frames stopped.", rows, labels)


def _stages(status: LiveStatus) -> Iterator[Metric]:
    rows = [((stage.name,), stage.busy) for stage in status.stages]
    yield _gauge("stage_busy_ratio", "Share of a stage's time at work.", rows, ("stage",))
    yield _gauge(
        "stage_seconds",
        "Work of a stage on one step; absent: n too small.",
        [
            ((stage.name, q), ms / 1e3)
            for stage in status.stages
            for q, ms in (("0.5", stage.p50_ms), ("0.95", stage.p95_ms))
            if ms is not None
        ],
        ("stage", "quantile"),
    )
    rows = [((queue.name,), queue.depth) for queue in status.queues]
    yield _gauge("queue_depth", "Items in a queue.", rows, ("queue",))
    rows = [((queue.name,), queue.capacity) for queue in status.queues]
    yield _gauge("queue_capacity", "Items a queue can hold.", rows, ("queue",))


_Rows = Iterable[tuple[tuple[str, ...], float]]


def _gauge(name: str, words: str, rows: _Rows, labels: tuple[str, ...] = ()) -> Metric:
    family = GaugeMetricFamily(f"headrace_{name}", words, labels=labels)
    return _add_rows(family, rows)


def _counter(name: str, words: str, rows: _Rows, labels: tuple[str, ...] = ()) -> Metric:
    family = CounterMetricFamily(f"headrace_{name}", words, labels=labels)
    return _add_rows(family, rows)


def _add_rows(family: GaugeMetricFamily | CounterMetricFamily, rows: _Rows) -> Metric:
    for labels, value in rows:
        family.add_metric(labels, value)
    return family
