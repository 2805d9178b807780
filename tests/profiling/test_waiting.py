"""What waits is called waiting, from the pipeline to the verdict."""

from headrace.profiling.findings.verdict import find
from headrace.profiling.flow import ItemCounts, QueueRecord, StageRecord
from headrace.profiling.session import Session
from headrace.profiling.stages import Role
from headrace.profiling.steps import Step, Steps
from headrace.runtime.feed import Feed
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage
from headrace.testing.fake_clock import FakeClock
from report.recorded import record

PERIOD_NS = 20_000_000
ROLES: dict[str, Role] = {"camera": "decode", "model": "model"}


def recorded(frames: int) -> Session:
    """Record a source that is paced at 20 ms, before a model that takes no time."""
    clock = FakeClock()

    def read(waiter):
        for frame in range(frames):
            waiter.until(frame * PERIOD_NS)
            yield frame

    line = Pipeline(
        source=Feed(read=read),
        stages=[Stage(name="model", function=abs)],
        source_name="camera",
    )
    with line.run(clock=clock) as run:
        steps = Steps.of(
            Step(
                step=item.index,
                first_index=item.value,
                frames=1,
                started_ms=item.spans[0].start_ns / 1e6,
                work_ms={span.stage: span.work_ns / 1e6 for span in item.spans},
                total_ms=(item.spans[-1].end_ns - item.spans[0].start_ns) / 1e6,
            )
            for item in run
        )
        stages = tuple(StageRecord.of(each, ROLES[each.name]) for each in run.stages())
        queues = tuple(QueueRecord.of(each, feeds=None) for each in run.queues())
        return record(steps=0).model_copy(
            update={
                "steps": steps,
                "stages": stages,
                "queues": queues,
                "items": ItemCounts.of(run.flow()),
                "warmup_steps": 0,
                "wall_seconds": clock.now_ns() / 1e9,
            }
        )


def test_a_paced_source_is_starved_not_busy_and_the_verdict_says_so() -> None:
    session = recorded(51)
    camera = session.stages[0]
    assert (camera.starved_seconds, camera.busy_seconds) == (1.0, 0.0)
    (found,) = find(session)
    assert found.bound_by == ("source",)
    assert found.headline == (
        "Bound by the source: frames come no faster; camera waited for them 100 % of the time."
    )
    assert found.change is None


def test_what_came_in_is_accounted_for() -> None:
    assert recorded(51).items == ItemCounts(arrived=51, delivered=51, dropped=0, in_flight=0)
