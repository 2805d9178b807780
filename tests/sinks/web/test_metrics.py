"""The metrics of a run, read as Prometheus reads them."""

from prometheus_client.parser import text_string_to_metric_families

from headrace.sinks.web.metrics import CONTENT_TYPE, metrics_text
from sinks.web.asking import ask
from sinks.web.faked_run import DOOR, faked_run, source, status


def samples(text: str) -> dict[tuple[str, ...], float]:
    """(name, label values in the order of their names) -> value."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_figure_is_there_in_seconds_and_shares():
    with faked_run() as run:
        reply = ask(run, "/metrics")
    assert reply.headers["content-type"] == CONTENT_TYPE
    found = samples(reply.text)
    for key, value in {
        ("headrace_frames_arrived_total",): 22_640,
        ("headrace_frames_delivered_total",): 22_101,
        ("headrace_frames_dropped_total", "stale", "decode"): 530,
        ("headrace_frames_in_flight",): 3,
        ("headrace_fps",): 29.0,
        ("headrace_silent_seconds",): 0.031,
        ("headrace_latency_seconds", "arrival", "0.95"): 0.0632,
        ("headrace_latency_jitter_seconds",): 0.00462,
        ("headrace_source_state", DOOR, "live"): 1,
        ("headrace_source_state", DOOR, "stalled"): 0,
        ("headrace_source_fps", DOOR): 30,
        ("headrace_stage_busy_ratio", "model"): 0.86,
        ("headrace_stage_seconds", "0.5", "model"): 0.0289,
        ("headrace_queue_depth", "decoded"): 2,
        ("headrace_queue_capacity", "decoded"): 2,
    }.items():
        assert found[key] == value, key


def test_what_is_not_known_is_absent():
    early = status(silent_seconds=None, latency=None, jitter_ms=None)
    found = samples(metrics_text(early).decode())
    names = {key[0] for key in found}
    assert not names & {
        *("headrace_silent_seconds", "headrace_latency_seconds"),
        "headrace_latency_jitter_seconds",
    }
    assert ("headrace_stage_seconds", "0.95", "sink") not in found, "n too small"


def test_a_source_may_be_called_anything():
    name = 'a "b"\\\n# HELP'
    found = samples(metrics_text(status(sources=(source(name),))).decode())
    assert found["headrace_source_fps", name] == 30
