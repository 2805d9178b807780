"""From what a run left behind to the parts of its session."""

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.profiling.flow import QueueRecord, StageRecord
from headrace.profiling.inputs import GopLengths, LostFrame, SourceSummary
from headrace.profiling.stages import ROLES, Role
from headrace.profiling.steps import Step
from headrace.profiling.usage import cpu_seconds, machine_cpu_seconds
from headrace.runs.stages import Shown
from headrace.runtime.pipeline import Run
from headrace.runtime.stage import Item
from headrace.video.loss import Loss
from headrace.video.stream_index import StreamIndex

_LEAST_SECONDS: Final = 0.5
"""Of processor time, below which the share of other programs says nothing."""


def step_of(item: Item[Shown], number: int, start_ns: int) -> Step:
    """Return step `number` of a run that began at `start_ns`, from an item its last stage gave."""
    started_ns, ended_ns = item.spans[0].start_ns, item.spans[-1].end_ns
    return Step(
        step=number,
        first_index=item.value.first_index,
        frames=item.value.frames,
        started_ms=(started_ns - start_ns) / 1e6,
        work_ms={span.stage: (span.end_ns - span.start_ns) / 1e6 for span in item.spans},
        total_ms=(ended_ns - started_ns) / 1e6,
    )


def stages_and_queues(
    run: Run, moved_bytes: Mapping[Role, int] = {}
) -> tuple[tuple[StageRecord, ...], tuple[QueueRecord, ...]]:
    """Return what every stage and queue did, in the order the frames take.

    Stages are called by their roles; `moved_bytes` are those each carried to the device.
    """
    roles: dict[str, Role] = {role: role for role in ROLES}
    stages = tuple(
        StageRecord.of(stage, roles[stage.name], moved_bytes=moved_bytes.get(roles[stage.name], 0))
        for stage in run.stages()
    )
    fed = [*(stage.name for stage in stages[1:]), None]
    queues = zip(run.queues(), fed, strict=True)
    return stages, tuple(QueueRecord.of(queue, feeds=stage) for queue, stage in queues)


def lost_frames(losses: Iterable[Loss]) -> tuple[LostFrame, ...]:
    """Return the frames that were left out, or shown in spite of damage, with their times."""
    return tuple(
        LostFrame(
            index=loss.index,
            pts_seconds=loss.pts_seconds,
            cause=loss.cause,
            is_concealed=loss.is_concealed,
        )
        for loss in losses
    )


class ProcessorShare:
    """Watches what share of the processor time other programs take."""

    def __init__(self) -> None:
        """Begin to watch."""
        self._own, self._all = cpu_seconds(), machine_cpu_seconds()

    def of_others(self) -> float | None:
        """Return their share of all that was used since, in [0, 1]; None where it was little."""
        own, whole = cpu_seconds() - self._own, machine_cpu_seconds() - self._all
        if whole < _LEAST_SECONDS:
            return None
        return min(1.0, max(0.0, 1 - own / whole))


def summarize(index: StreamIndex) -> SourceSummary:
    """Return what a report says of a video."""
    lengths, info = index.gop_lengths, index.info
    return SourceSummary(
        path=str(index.source),
        codec=info.codec,
        height=info.height,
        width=info.width,
        frame_rate=index.frame_rate,
        frames=len(index),
        duration_seconds=index.duration_seconds,
        gop=GopLengths(
            minimum=int(lengths.min()),
            mean=float(lengths.mean()),
            maximum=int(lengths.max()),
        ),
        has_b_frames=info.reorders,
        is_vfr=index.is_vfr,
        rotation=info.orientation.rotation_degrees,
        counted_by=index.counted_by,
    )
