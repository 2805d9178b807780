"""From what a run left behind to the parts of its session."""

from headrace.live.batches import FileBatches
from headrace.live.stages import Shown
from headrace.profiling.session import (
    DamagedFrame,
    GopLengths,
    QueueRecord,
    SourceSummary,
    StageRecord,
)
from headrace.profiling.steps import Step
from headrace.runtime.item import Item
from headrace.runtime.pipeline import Run
from headrace.video.stream_index import StreamIndex

_CONCEALED = "the file is damaged there; the picture is what FFmpeg shows instead"


def step_of(item: Item[Shown], number: int, start_ns: int) -> Step:
    """Return step `number` of a run that began at `start_ns`, from an item its last stage gave."""
    spans = {span.stage: span for span in item.spans}
    started_ns, ended_ns = item.spans[0].start_ns, item.spans[-1].end_ns
    milliseconds = {name: (span.end_ns - span.start_ns) / 1e6 for name, span in spans.items()}
    return Step(
        step=number,
        first_index=item.value.first_index,
        frames=item.value.frames,
        started_ms=(started_ns - start_ns) / 1e6,
        read_ms=milliseconds["decode"],
        prep_ms=milliseconds["preprocess"],
        exec_ms=milliseconds["model"],
        sink_ms=milliseconds["sink"],
        total_ms=(ended_ns - started_ns) / 1e6,
    )


def stages_and_queues(run: Run) -> tuple[tuple[StageRecord, ...], tuple[QueueRecord, ...]]:
    """Return what every stage and queue did, in the order the frames take."""
    stages = tuple(StageRecord.of(stage) for stage in run.stages())
    fed = [*(stage.name for stage in stages[1:]), None]
    queues = zip(run.queues(), fed, strict=True)
    return stages, tuple(QueueRecord.of(queue, feeds=stage) for queue, stage in queues)


def damaged_frames(batches: FileBatches, index: StreamIndex) -> tuple[DamagedFrame, ...]:
    """Return the frames that were left out, or shown in spite of damage, with their times."""
    reasons = dict.fromkeys(batches.concealed, _CONCEALED)
    reasons |= {number: str(error) for number, error in batches.damaged}
    return tuple(
        DamagedFrame(index=number, pts_seconds=index.seconds(number), reason=reason)
        for number, reason in sorted(reasons.items())
    )


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
