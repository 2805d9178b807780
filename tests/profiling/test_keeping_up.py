"""Did a live session keep up: a sentence for each way it may have gone."""

from dataclasses import replace

import pytest

from headrace.profiling.findings.keeping_up import keeping_up
from headrace.profiling.findings.verdict import find
from headrace.profiling.flow import ItemCounts
from headrace.profiling.metrics import Metrics
from headrace.profiling.steps import Steps
from report.recorded import record


def live(latency_ms, *, stalled_after=None, oldest_ms=None, captured_ms=None, **changes):
    """A live session of one frame every 40 ms; `latency_ms` of each step's number."""
    plain = record((1, 1, 1, 1), steps=200, batch_size=1, spread=0, warmup_steps=0)
    rows = []
    for k, step in enumerate(plain.steps.rows()):
        late = 5_000 if stalled_after is not None and k > stalled_after else 0
        started = 40.0 * k + late
        rows.append(
            replace(
                step,
                started_ms=started,
                total_ms=latency_ms(k),
                arrived_ms=started,
                oldest_arrived_ms=None if oldest_ms is None else max(0.0, started - oldest_ms),
                capture_latency_ms=captured_ms,
            )
        )
    stages = tuple(
        stage.model_copy(update={"dropped": changes.get("dropped", {}).get(stage.name, {})})
        for stage in plain.stages
    )
    arrived = 200 + sum(sum(each.values()) for each in changes.get("dropped", {}).values())
    return plain.model_copy(
        update={
            "kind": "live",
            "pace": "arrival",
            "steps": Steps.of(rows),
            "stages": stages,
            "items": ItemCounts(arrived=arrived, delivered=200, dropped=arrived - 200, in_flight=0),
        }
    )


def test_it_kept_up():
    session = live(lambda k: 20.0)
    finding = keeping_up(session)
    assert finding.headline == (
        "Kept up: no frame was too many; latency 20 ms from arrival (median of 200 steps)."
    )
    assert finding in find(session)
    assert not [each for each in find(session) if "model" in each.bound_by]


def test_frames_were_too_many():
    session = live(
        lambda k: 20.0, dropped={"decode": {"overflow": 90, "stride": 7}, "model": {"stale": 10}}
    )
    finding = keeping_up(session)
    assert finding.headline == "Frames came faster than they were worked on: 33 % were dropped."
    assert finding.evidence == ("90 frames: overflow at decode.", "10 frames: stale at model.")


def test_a_few_frames_of_a_hiccup_are_named_but_no_verdict():
    finding = keeping_up(live(lambda k: 20.0, dropped={"decode": {"overflow": 4, "backlog": 80}}))
    assert finding.headline.startswith("Kept up: hardly any frame was too many")
    assert finding.evidence == ("4 frames: overflow at decode.",)


def test_it_fell_behind():
    assert "latency grew by 7.2 s" in keeping_up(live(lambda k: 40.0 * k)).headline


def test_at_full_speed_nothing_can_be_too_many():
    assert keeping_up(record()) is None


@pytest.mark.parametrize(("after", "count", "seconds"), [(None, 0, 0.0), (100, 1, 5.04)])
def test_a_stall_is_where_nothing_came_out(after, count, seconds):
    stalls = Metrics.of(live(lambda k: 20.0, stalled_after=after)).stalls
    assert (stalls.count, round(stalls.seconds, 2)) == (count, seconds)
    assert Metrics.of(record()).stalls is None


def test_latency_the_oldest_frame_and_capture_are_told_apart():
    metrics = Metrics.of(live(lambda k: 20.0, oldest_ms=30.0, captured_ms=55.0))
    assert (metrics.latency.base, metrics.latency.ms.p50) == ("arrival", 20.0)
    assert metrics.latency.oldest_ms.p50 == pytest.approx(50.0)
    assert metrics.capture_ms.p50 == 55.0
    plain = Metrics.of(live(lambda k: 20.0))
    assert plain.latency.oldest_ms is None
    assert plain.capture_ms is None
