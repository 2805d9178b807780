"""Simulated runs: pipelines of stages with a planted bottleneck."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.profiling.run_records import QueueRecord, Role, Setup, StageRecord
from headrace.profiling.session import Session, Steps
from profiling.simulation import Lock, Process, Queue, Sleep, Work, World
from report.recorded import MACHINE, changed, queue_record, record, stage_record, step_of

ORDER: tuple[Role, ...] = ("decode", "preprocess", "transfer", "model", "sink")


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A pipeline of stages; times are means, in milliseconds per step."""

    decode: float = 0.0
    preprocess: float = 0.0
    transfer: float = 0.0
    model: float = 0.0
    sink: float = 0.0
    source: float = 0.0
    """Interval between the steps of a paced source; a wait, not work."""
    overhead: float = 0.0
    """Python overhead per stage and step, under one lock."""
    workers: Mapping[str, int] | None = None
    """Stage → number of threads; default 1."""
    cores: int = 16
    capacity: int = 4
    noise: float = 0.1
    """Standard deviation of the logarithm of a time."""
    steps: int = 300
    seed: int = 1

    def with_(self, **changes: Any) -> "Pipeline":
        return replace(self, **changes)


def step_ms(session: Session) -> float:
    """Return the mean milliseconds between outputs."""
    steps = session.steps
    ends = [a + b for a, b in zip(steps.started_ms, steps.total_ms, strict=True)]
    return (ends[-1] - ends[10]) / (len(ends) - 11)


def simulate(plan: Pipeline, **changes: Any) -> Session:
    """Return the session that a run of `plan` records; `changes` replace its fields."""
    world = World(plan.cores)
    stages = [_Stage(role, plan) for role in ORDER if getattr(plan, role)]
    queues = [Queue(world, plan.capacity) for _ in stages[1:]]
    lock = Lock(world)
    for place, stage in enumerate(stages):
        before = queues[place - 1] if place else None
        after = queues[place] if place < len(queues) else None
        for _ in range(stage.workers):
            world.start(_worker(world, stage, before, after, lock, plan))
    world.run()
    fields = {
        "setup": Setup(batch_size=16, model="resnet50", prep_level="complex", draws_video=True),
        "wall_seconds": world.now_ms / 1e3,
        "warmup_steps": 1,
        "steps": _steps(stages),
        "stages": tuple(stage.record() for stage in stages),
        "queues": tuple(
            _queue(queue, stages[place].role, stages[place + 1].role, world, plan)
            for place, queue in enumerate(queues)
        ),
    }
    base = record(steps=1, machine=changed(MACHINE, usable_cores=plan.cores))
    return changed(base, **fields, **changes)


class _Stage:
    def __init__(self, role: Role, plan: Pipeline) -> None:
        generator = np.random.default_rng([plan.seed, ORDER.index(role)])
        factors = generator.lognormal(-(plan.noise**2) / 2, plan.noise, plan.steps)
        self.role = role
        self.needs_ms = getattr(plan, role) * factors
        self.workers = (plan.workers or {}).get(role, 1)
        self.next = 0
        self.busy_ms = self.starved_ms = self.blocked_ms = 0.0
        self.began_ms, self.ended_ms = {}, {}

    def record(self) -> StageRecord:
        spent = (self.busy_ms / 1e3, self.starved_ms / 1e3, self.blocked_ms / 1e3)
        return stage_record(
            self.role, workers=self.workers, items=len(self.ended_ms), seconds=spent
        )


def _worker(
    world: World,
    stage: _Stage,
    before: Queue | None,
    after: Queue | None,
    lock: Lock,
    plan: Pipeline,
) -> Process:
    while stage.next < plan.steps:
        step, stage.next = stage.next, stage.next + 1
        requested = world.now_ms
        if before is not None:
            step = yield from before.take()
        elif step * plan.source > world.now_ms:
            yield Sleep(step * plan.source - world.now_ms)
        stage.starved_ms += world.now_ms - requested
        if plan.overhead:
            yield from lock.hold(plan.overhead)
        began = stage.began_ms[step] = world.now_ms
        yield Work(float(stage.needs_ms[step]))
        done = stage.ended_ms[step] = world.now_ms
        stage.busy_ms += done - began
        if after is not None:
            yield from after.put(step)
        stage.blocked_ms += world.now_ms - done


def _steps(stages: list[_Stage]) -> Steps:
    first, last = stages[0], stages[-1]
    order = sorted(last.ended_ms, key=lambda step: last.ended_ms[step])
    return Steps.of(
        step_of(
            number,
            first_index=16 * step,
            frames=16,
            started_ms=first.began_ms[step],
            work_ms={s.role: s.ended_ms[step] - s.began_ms[step] for s in stages},
            total_ms=last.ended_ms[step] - first.began_ms[step],
        )
        for number, step in enumerate(order)
    )


def _queue(queue: Queue, fills: Role, feeds: Role, world: World, plan: Pipeline) -> QueueRecord:
    return queue_record(
        **{"name": fills, "feeds": feeds, "items": plan.steps, "capacity": queue.capacity},
        elapsed_seconds=world.now_ms / 1e3,
        occupancy_mean=min(1.0, queue.filled_ms / world.now_ms / queue.capacity),
        occupancy_max=queue.most / queue.capacity,
    )
