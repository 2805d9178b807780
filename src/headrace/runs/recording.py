"""From what a run left behind to the parts of its session."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.models.catalogue import smaller_model
from headrace.models.model import Model
from headrace.profiling.provenance import Provenance
from headrace.profiling.run_records import Setup
from headrace.profiling.session import Outcome
from headrace.profiling.stage_records import QueueRecord, StageRecord
from headrace.profiling.steps import LatestSteps, Step, Steps
from headrace.profiling.usage import ProcessorShare
from headrace.runs.instruments import Instruments
from headrace.runs.options import ComputeOptions
from headrace.runs.stages import SOURCE, STAGE_ROLES, Carrier, Shown
from headrace.runtime.clock import Clock
from headrace.runtime.item import Item
from headrace.runtime.pipeline import Run
from headrace.runtime.stage import StageStatistics

_WARMUP_STEPS: Final = 1


@dataclass(frozen=True, kw_only=True)
class Going:
    """A run that goes on: what a record of it, at any moment, is made of."""

    made: Provenance
    start_ns: int
    clock: Clock
    share: ProcessorShare
    steps: list[Step] | LatestSteps
    """So far."""
    instruments: Instruments

    def fields(self, outcome: Outcome, error: str | None) -> dict[str, Any]:
        """Return the fields of a session that every run has, as they are now."""
        return {
            "provenance": self.made,
            "outcome": outcome,
            "error": error,
            "wall_seconds": (self.clock.now_ns() - self.start_ns) / 1e9,
            "others_cpu_share": self.share.of_others(),
            "usage": self.share.used(),
            "warmup_steps": _WARMUP_STEPS if len(self.steps) > 2 * _WARMUP_STEPS else 0,
            "steps": Steps.of(self.steps),
        }


@dataclass(frozen=True, kw_only=True)
class DecodeThreads:
    """What the threads that decode ahead did."""

    threads: int
    busy_seconds: float
    """Summed over the threads."""

    @classmethod
    def of(cls, steps: Iterable[Step], threads: int) -> "DecodeThreads":
        """Return what they did for these steps."""
        busy_seconds = sum(step.work_ms[SOURCE] for step in steps) / 1e3
        return cls(threads=threads, busy_seconds=busy_seconds)

    def record(self, source: StageStatistics) -> StageRecord:
        """Return their record, from that of the source that hands out what they decode.

        What they did not work they waited for room; the source waits for them alone.
        """
        life = self.threads * (
            source.busy_seconds + source.starved_seconds + source.blocked_seconds
        )
        return StageRecord(
            name=source.name,
            role=SOURCE,
            workers=max(1, self.threads),
            items=source.items,
            busy_seconds=self.busy_seconds,
            starved_seconds=0.0,
            blocked_seconds=max(0.0, life - self.busy_seconds),
        )


def step_of(item: Item[Shown], number: int, start_ns: int) -> Step:
    """Return step `number` of a run that began at `start_ns`, from an item its last stage gave.

    Frames are decoded ahead, in threads of their own: the work on them is not the wait for them.
    """
    started_ns, ended_ns = item.spans[0].start_ns, item.spans[-1].end_ns
    work_ms = {span.stage: span.work_ns / 1e6 for span in item.spans}
    return Step(
        step=number,
        input=item.value.video,
        first_index=item.value.first_index,
        frames=item.value.frames,
        started_ms=(started_ns - start_ns) / 1e6,
        work_ms=work_ms | {SOURCE: item.value.decode_seconds * 1e3},
        total_ms=(ended_ns - started_ns) / 1e6,
    )


def stages_and_queues(
    run: Run, *, decoding: DecodeThreads, carriers: Mapping[str, Carrier]
) -> tuple[tuple[StageRecord, ...], tuple[QueueRecord, ...]]:
    """Return what every stage and queue did, in the order the frames take.

    Args:
        run: The pipeline that ran.
        decoding: What the threads behind its source did.
        carriers: Name of a stage -> what carries to a device there.
    """
    source, *others = run.stages()
    stages = (
        decoding.record(source),
        *(_stage_record(stage, carriers.get(stage.name)) for stage in others),
    )
    fed = [*(stage.name for stage in stages[1:]), None]
    queues = zip(run.queues(), fed, strict=True)
    return stages, tuple(QueueRecord.of(queue, feeds=stage) for queue, stage in queues)


def _stage_record(stage: StageStatistics, carrier: Carrier | None) -> StageRecord:
    role = STAGE_ROLES[stage.name]
    if carrier is None:
        return StageRecord.of(stage, role)
    return StageRecord.of(stage, role, moved_bytes=carrier.moved_bytes, moved_to=carrier.device)


def setup_of(
    compute: ComputeOptions,
    model: Model[Any],
    made: Provenance,
    *,
    stride: int = 1,
    draws_video: bool,
) -> Setup:
    """Return what set the pace of a run, as findings reason about it."""
    return Setup(
        batch_size=compute.batch_size,
        stride=stride,
        device=compute.device,
        model=model.name,
        smaller_model=smaller_model(model.name),
        parameters=model.num_parameters,
        threads=compute.threads or made.machine.usable_cores,
        # A model that takes pictures as they are resizes by itself: no level is lighter.
        prep_level=None if model.input.crop is None else compute.prep_level,
        draws_video=draws_video,
    )
