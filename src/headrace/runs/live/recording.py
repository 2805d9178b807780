"""From what a live run left behind to the parts of its session."""

from collections.abc import Iterator, Sequence

from headrace.errors import first_line
from headrace.live.source import LiveSource
from headrace.profiling.input_records import EventRecord, LostFrame, SourceRecord, lost_frame
from headrace.profiling.stage_records import QueueRecord, StageRecord
from headrace.profiling.steps import Step
from headrace.runs.live.flow import LiveFlow
from headrace.runs.live.full_speed import FileSource
from headrace.runs.live.showing import Results
from headrace.runs.live.stages import STAGE_ROLES
from headrace.runs.live.values import Answered, Gathered
from headrace.runtime.clock import Clock
from headrace.runtime.fan_out import FanOut
from headrace.runtime.item import Item


def step_of(
    item: Item[Answered], number: int, start_ns: int, *, is_live: bool, clock: Clock
) -> Step:
    """Return step `number` of a run that began at `start_ns`; it has just come out."""
    gathered = item.value.gathered
    started_ns, ended_ns = item.spans[0].start_ns, item.spans[-1].end_ns
    newest, oldest_ns = gathered.views[-1][-1], gathered.oldest_ns
    captured, since_ms = newest.captured_seconds, (clock.now_ns() - ended_ns) / 1e6
    return Step(
        step=number,
        input=item.source or 0,
        segment=_segment_of(gathered) if is_live else None,
        first_index=gathered.views[0][0].number,
        frames=item.parts,
        started_ms=(started_ns - start_ns) / 1e6,
        work_ms={span.stage: span.work_ns / 1e6 for span in item.spans},
        total_ms=(ended_ns - started_ns) / 1e6,
        arrived_ms=max(0.0, (gathered.newest_ns - start_ns) / 1e6) if is_live else None,
        oldest_arrived_ms=max(0.0, (oldest_ns - start_ns) / 1e6)
        if is_live and oldest_ns != gathered.newest_ns
        else None,
        capture_latency_ms=None
        if captured is None
        else (clock.wall_seconds() - captured) * 1e3 - since_ms,
    )


def _segment_of(gathered: Gathered) -> int | None:
    """Return the segment of the frames; None where they are of several, or of several sources."""
    found = {(frame.source, frame.segment) for view in gathered.views for frame in view}
    return found.pop()[1] if len(found) == 1 else None


def stage_records(
    flow: LiveFlow, fan: FanOut[Results] | None
) -> tuple[tuple[StageRecord, ...], tuple[QueueRecord, ...]]:
    """Return what every stage, queue and sink did, in the order the frames take."""
    carrier = flow.plan.carrier
    found = flow.run.stages()
    stages = [
        StageRecord.of(
            stage,
            STAGE_ROLES[stage.name],
            moved_bytes=carrier.moved_bytes if carrier and stage.name == "transfer" else 0,
            moved_to=carrier.device if carrier and stage.name == "transfer" else None,
        )
        for stage in found
    ]
    fed = [*(stage.name for stage in found[1:]), None]
    queues = [
        QueueRecord.of(queue, feeds=stage)
        for queue, stage in zip(flow.run.queues(), fed, strict=True)
    ]
    if fan is not None:
        stages += [StageRecord.of(sink, "sink") for sink in fan.statistics()]
        queues += [QueueRecord.of(queue, feeds=queue.name) for queue in fan.queues()]
    return tuple(stages), tuple(queues)


def source_records(flow: LiveFlow) -> tuple[SourceRecord, ...]:
    """Return what became of each source."""
    pairs = zip(flow.plan.sources, flow.readings, strict=True)
    return tuple(
        SourceRecord(
            name=source.name,
            arrived=reading.arrived,
            error=None if reading.error is None else first_line(reading.error),
        )
        for source, reading in pairs
    )


def losses_of(sources: Sequence[LiveSource]) -> tuple[LostFrame, ...]:
    """Return the frames of files that were left out or concealed; streams tell of theirs."""
    return tuple(
        lost_frame(loss, number)
        for number, source in enumerate(sources)
        if isinstance(source, FileSource)
        for loss in source.losses
    )


def event_records(
    flow: LiveFlow,
    failures: Sequence[tuple[int, str]],
    start_ns: int,
    others: Sequence[EventRecord] = (),
) -> tuple[EventRecord, ...]:
    """Return all that happened, in order.

    Args:
        flow: The run.
        failures: When each sink that failed did, and what it said.
        start_ns: When the run began.
        others: What else happened.
    """
    events = (*_events(flow, failures, start_ns), *others)
    return tuple(sorted(events, key=lambda event: event.at_seconds))


def _events(
    flow: LiveFlow, failures: Sequence[tuple[int, str]], start_ns: int
) -> Iterator[EventRecord]:
    def seconds(at_ns: int) -> float:
        return max(0.0, (at_ns - start_ns) / 1e9)

    for event in list(flow.events):
        yield EventRecord(
            at_seconds=seconds(event.at_ns),
            source=event.source,
            kind=event.kind,
            words=event.words,
            frames=event.frames,
        )
    for spell in flow.drops.spells:
        yield EventRecord(
            at_seconds=seconds(spell.began_ns),
            source=spell.source,
            kind="dropped",
            words=spell.words,
            frames=spell.frames,
        )
    for number, reading in enumerate(flow.readings):
        if reading.error is not None:
            words = first_line(reading.error)
            at = seconds(reading.failed_ns)
            yield EventRecord(at_seconds=at, source=number, kind="failed", words=words)
    for at_ns, words in failures:
        yield EventRecord(at_seconds=seconds(at_ns), source=None, kind="failed", words=words)
