"""Simulated training loops over a DataLoader with workers."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from headrace.instrumentation.dataloader_hook import LoaderInfo
from headrace.instrumentation.loop_recorder import BatchInfo, LoopRecorder, LoopStep
from headrace.instrumentation.loop_session import build_session
from headrace.instrumentation.timed_worker import BatchCost
from headrace.loaders.planned_loader import DecodingFacts
from headrace.profiling.recorder import Recorder
from headrace.profiling.session import Session
from headrace.runtime.clock import ThreadTimes
from headrace.testing.fake_clock import FakeClock
from profiling.simulation import Process, Queue, Signal, Sleep, Wait, Work, World
from report.recorded import MACHINE, changed, record

SENDING_MS = 15.0
"""Time to send a batch while another thread of the worker runs Python: three GIL switches."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A training loop over a DataLoader; times are means, in milliseconds per batch."""

    fetch: float
    step: float
    collate: float = 1.0
    workers: int = 0
    prefetch: int = 2
    from_disk: float = 0.0
    """Share of `fetch` that waits for a disk, without a core."""
    handover: float = 0.4
    """Time of the loop's process to receive a batch from its worker."""
    shared: float = 1.5e-6
    """Time of a worker to copy a byte of a batch into shared memory; part of collating."""
    holds_gil: bool = False
    """Whether `collate` is Python: it keeps its worker from sending the batch before it."""
    log: float = 0.0
    """Additional time of the loop every `log_every` steps: logging, an evaluation."""
    log_every: int = 1
    start: float = 20.0
    """Time to start the workers, in each epoch unless they persist."""
    epochs: int = 1
    lives_on: bool = False
    cores: int = 8
    noise: float = 0.1
    batch_bytes: int = 1_000_000
    steps: int = 300
    """Number of steps in all epochs together."""
    others: int = 0
    """Number of other programs; each keeps a core busy."""
    seed: int = 1

    def with_(self, **changes: Any) -> "Loop":
        return replace(self, **changes)


@cache
def loop_ms(plan: Loop) -> float:
    """Return the milliseconds of the whole loop."""
    return (_run(plan).steps[-1].end_ns or 0) / 1e6


def simulate_loop(plan: Loop) -> Session:
    """Return the session of the profiled loop."""
    planted = _run(plan)
    steps = planted.steps
    loop = LoopRecorder(clock=FakeClock(), steps=[*steps], start_seconds=[*planted.starts])
    loop.batch = BatchInfo(num_bytes=plan.batch_bytes, has_float32=True)
    provenance = record(steps=1, machine=changed(MACHINE, usable_cores=plan.cores)).provenance
    return build_session(
        Recorder("loader", provenance, clock=FakeClock()),
        loop,
        LoaderInfo(
            name="DataLoader",
            kind="DataLoader",
            dataset="Planted",
            collate="train.py:9",
            batch_size=16,
            workers=plan.workers,
            prefetch_factor=plan.prefetch if plan.workers else None,
            has_persistent_workers=plan.lives_on,
        ),
        wall_seconds=(steps[-1].end_ns or 0) / 1e9,
        others_cpu_share=planted.others_ms / planted.all_ms if plan.others else None,
    )


FIELDS = {
    "num_workers": "workers",
    "prefetch_factor": "prefetch",
    "persistent_workers": "lives_on",
}
"""Argument of a DataLoader → field of a loop."""


def profile_loop(plan: Loop, location: str = "train.py:18", **configuration: Any) -> Session:
    """Return the session of a simulated loop, as `headrace profile` records it."""
    at = {"loop": location, "loader": "DataLoader", "dataset": "Planted", "batch_size": 16}
    arguments = {option: getattr(plan, name) for option, name in FIELDS.items()}
    return configured(simulate_loop(plan), {**at, **arguments, **configuration})


def configured(session: Session, configuration: dict[str, Any]) -> Session:
    """Return a session with another configuration."""
    return changed(session, provenance=changed(session.provenance, configuration=configuration))


def simulate_planned(*, wait_ms: float = 100.0, step_ms: float = 20.0, **decoding: Any) -> Session:
    """Return the session of a loop over a FrameLoader, which waits for each batch.

    Args:
        wait_ms: Wait of each step for its batch.
        step_ms: Rest of a step.
        decoding: Fields of `DecodingFacts` that differ.
    """
    facts = DecodingFacts(
        **{
            "amplification": 2.5,
            "starved_ms": wait_ms,
            "threads": 8,
            "is_packed": False,
            "store": "possible",
            "store_amplification": 1.0,
            "store_bytes": 12_000_000_000,
            "pack_ms": 80.0,
            "unpack_ms": 96.0,
            **decoding,
        }
    )
    step_ns, receive_ns = round((wait_ms + step_ms) * 1e6), round(wait_ms * 1e6)
    steps = [
        LoopStep(
            request_ns=number * step_ns,
            receive_ns=number * step_ns + receive_ns,
            is_first=number == 0,
            ready_batches=None,
            samples=16,
            end_ns=(number + 1) * step_ns,
        )
        for number in range(101)
    ]
    return build_session(
        Recorder("loader", record(steps=1).provenance, clock=FakeClock()),
        LoopRecorder(clock=FakeClock(), steps=steps, decoding=lambda: facts),
        LoaderInfo(name="FrameLoader", kind="headrace"),
        wall_seconds=101 * step_ns / 1e9,
        others_cpu_share=None,
    )


class _Planted:
    """State of a simulated loop."""

    def __init__(self, plan: Loop) -> None:
        self.plan = plan
        self.world = World(plan.cores)
        self.fetch, self.collate, self.step = (
            self._drawn(place, mean)
            for place, mean in enumerate((plan.fetch, plan.collate, plan.step))
        )
        self.arrived: dict[int, int] = {}
        """Batch → time at which it was ready, in ns."""
        self.sent: set[int] = set()
        """Batches that the loop can receive."""
        self.spent: dict[int, tuple[float, float]] = {}
        """Batch → duration of fetch and collate, in milliseconds."""
        self.waited: dict[int, tuple[float, float]] = {}
        """Batch → waits for a core in fetch and collate, in milliseconds."""
        self.others_ms = 0.0
        """Work of other programs, in milliseconds."""
        self.is_over = False
        self.news = Signal()
        self.steps: list[LoopStep] = []
        self.starts: list[float] = []

    def _drawn(self, place: int, mean: float) -> Any:
        noise = self.plan.noise
        generator = np.random.default_rng([self.plan.seed, place])
        return mean * generator.lognormal(-(noise**2) / 2, noise, self.plan.steps)

    @property
    def all_ms(self) -> float:
        """Work of all programs, in milliseconds."""
        own_ns = sum(step.cpu_ns + (step.cost.cpu_ns if step.cost else 0) for step in self.steps)
        return self.others_ms + own_ns / 1e6

    def other_program(self) -> Process:
        while not self.is_over:
            yield Work(1.0)
            self.others_ms += 1.0

    def work(self, ms: float) -> Generator[object, None, float]:
        """Work `ms` milliseconds on a core; return the wait for a core."""
        began = self.world.now_ms
        yield Work(ms)
        return self.world.now_ms - began - ms

    def now_ns(self) -> int:
        return round(self.world.now_ms * 1e6)

    def make(self, batch: int) -> Process:
        """Load a batch, in the process that calls it."""
        began = self.world.now_ms
        waits = self.plan.from_disk * self.fetch[batch]
        if waits:
            yield Sleep(waits)
        of_fetch = yield from self.work(float(self.fetch[batch] - waits))
        fetched = self.world.now_ms
        of_collate = yield from self.work(self.collating(batch))
        self.spent[batch] = (fetched - began, self.world.now_ms - fetched)
        self.waited[batch] = (of_fetch, of_collate)

    def collating(self, batch: int) -> float:
        shared = self.plan.shared * self.plan.batch_bytes if self.plan.workers else 0.0
        return float(self.collate[batch]) + shared

    def worker(self, requests: Queue) -> Process:
        while True:
            batch = yield from requests.take()
            if batch < 0:
                return
            yield from self.make(batch)
            self.arrived[batch] = self.now_ns()
            self.world.start(self.send(batch, is_last=not requests.inside))

    def send(self, batch: int, *, is_last: bool) -> Process:
        if self.plan.holds_gil and not is_last:
            yield Sleep(min(self.plan.collate, SENDING_MS))
        self.sent.add(batch)
        self.world.give(self.news)

    def loop(self) -> Process:
        plan, queues = self.plan, []
        per_epoch = plan.steps // plan.epochs
        for epoch in range(plan.epochs):
            began = self.world.now_ms
            if plan.workers and not (plan.lives_on and epoch):
                yield from self.end(queues)
                yield Sleep(plan.start)
                queues = [Queue(self.world, 10_000) for _ in range(plan.workers)]
                for queue in queues:
                    self.world.start(self.worker(queue))
            batches = range(epoch * per_epoch, (epoch + 1) * per_epoch)
            for batch in batches[: plan.workers * plan.prefetch]:
                yield from queues[batch % plan.workers].put(batch)
            for batch in batches:
                yield from self.turn(batch, batches, queues, began)
        yield from self.end(queues)
        self.is_over = True

    def end(self, queues: list[Queue]) -> Process:
        for queue in queues:
            yield from queue.put(-1)

    def turn(self, batch: int, batches: range, queues: list[Queue], began: float) -> Process:
        plan, request_ns = self.plan, self.now_ns()
        if not queues:
            yield from self.make(batch)
            self.arrived[batch] = self.now_ns()
            self.sent.add(batch)
        while batch not in self.sent:
            yield Wait(self.news)
        handover = plan.handover if queues else 0.0
        loop_waited = 0.0 if queues else sum(self.waited[batch])
        if handover:
            loop_waited += yield from self.work(handover)
        further = batch + plan.workers * plan.prefetch
        if queues and further in batches:
            yield from queues[further % plan.workers].put(further)
        is_first = batch == batches[0]
        if is_first:
            self.starts.append((self.world.now_ms - began) / 1e3)
        fetch, collate = self.spent[batch]
        receive_ns = self.now_ns()
        step = float(self.step[batch]) + (0.0 if batch % plan.log_every else plan.log)
        step_waited = yield from self.work(step)
        of_fetch, of_collate = self.waited[batch]
        batch_cpu = (1 - plan.from_disk) * self.fetch[batch] + self.collating(batch)
        loop_cpu = step + (handover if plan.workers else batch_cpu)
        self.steps.append(
            LoopStep(
                request_ns=request_ns,
                receive_ns=receive_ns,
                is_first=is_first,
                ready_batches=None,
                samples=16,
                cost=BatchCost(
                    fetch_ns=round(fetch * 1e6),
                    collate_ns=round(collate * 1e6),
                    cpu_ns=round(batch_cpu * 1e6),
                    ready_ns=self.arrived[batch],
                    samples=16,
                    fetch_core_wait_ns=round(of_fetch * 1e6),
                    collate_core_wait_ns=round(of_collate * 1e6),
                ),
                end_ns=self.now_ns(),
                cpu_ns=round(loop_cpu * 1e6),
                waiting=ThreadTimes(round(1e6 * handover), round(1e6 * loop_waited)),
                working=ThreadTimes(round(1e6 * step), round(1e6 * step_waited)),
            )
        )


@lru_cache(maxsize=64)  # several tests use each loop
def _run(plan: Loop) -> _Planted:
    planted = _Planted(plan)
    planted.world.start(planted.loop())
    for _ in range(plan.others):
        planted.world.start(planted.other_program())
    planted.world.run()
    return planted
