"""Variants of `bench overlap`, timed: sequential stages, threads, processes."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from headrace.bench.benchmark import Context
from headrace.bench.config import indexes_of
from headrace.bench.model_work import FrameResult, ModelWork, Show, ready_work
from headrace.bench.overlap import (
    OFFERED,
    VARIANTS,
    OverlapConfig,
    OverlapRecord,
    OverlapRepetition,
    Variant,
)
from headrace.bench.overlap_processes import SharedFrame, stages_of
from headrace.errors import StageError
from headrace.live.drop_policy import DropPolicy
from headrace.live.realtime_source import LoadGenerator
from headrace.measuring.interleaved import Stopwatch, interleave
from headrace.runs.live.live_batches import ViewBatch
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.clock import Clock
from headrace.runtime.process_pipeline import ProcessPipeline
from headrace.runtime.stage import Span
from headrace.runtime.waitable_source import Waiter
from headrace.video.stream_index import StreamIndex

_WAITING: Final = 2
"""Max frames waiting before a stage, in threads and in processes."""
_SETTLING: Final = 10
"""Uncounted frames at the start of a repetition: threads start, the decoder fills."""
_MIN_FRAMES: Final = 20
"""Min counted frames of a repetition."""


def measure_overlap(config: OverlapConfig, context: Context) -> OverlapRecord:
    """Time all variants on the same frames, interleaved: at full speed and at a common rate.

    Raises:
        StageError: a process ended, or results differ between variants (a bug in headrace).
    """
    provenance, compute, clock = context.provenance(config), config.compute_options(), context.clock
    indexes = indexes_of(config.videos, context.store)

    def source(frames: int, speed: float | None) -> LoadGenerator:
        return LoadGenerator(indexes, num_frames=frames, speed=speed)

    context.on_progress("loading the model", 0, 0)
    with ready_work(compute, clock) as (work, model_seconds):
        context.on_progress("starting processes", 0, 0)
        with process_line(indexes, compute, work, clock) as line:
            context.on_progress("calibrating", 0, 0)
            fps = _calibrate(
                sequential(work, LoadGenerator(indexes, speed=None), clock), config.seconds
            )
            frames = max(_MIN_FRAMES, round(fps * config.seconds)) + _SETTLING
            video_fps = sum(map(len, indexes)) / sum(index.duration_seconds for index in indexes)
            repetitions = ComparedRepetitions(
                variants={
                    "sequential": lambda *order: sequential(work, source(*order), clock),
                    "threads": lambda *order: threaded(work, source(*order), clock),
                    "processes": lambda *order: in_processes(line, clock, *order),
                },
                frames=frames,
                clock=clock,
            )
            timelines = interleave(
                [(name, speed) for speed in (None, OFFERED * fps / video_fps) for name in VARIANTS],
                repetitions.take,
                repeats=config.repeats,
                label=lambda contender: (
                    f"{contender[0]}, {'full speed' if contender[1] is None else 'paced'}"
                ),
                on_progress=context.on_progress,
            )
    return OverlapRecord(
        provenance=provenance,
        videos=len(indexes),
        frames=frames - _SETTLING,
        settling=_SETTLING,
        offered_fps=OFFERED * fps,
        model_seconds=model_seconds,
        processes_seconds=line.start_seconds,
        compared=frames,
        turns=timelines,
    )


@dataclass(frozen=True, kw_only=True)
class FrameTimeline:
    """Timestamps of one frame through all stages, nanoseconds."""

    due_ns: int
    """Due time; at full speed, time of the request."""
    out_ns: int
    """Time it was shown."""
    work_ns: dict[str, int]
    """Stage → work on it."""
    answer: FrameResult


@dataclass(kw_only=True)
class ComparedRepetitions:
    """Repetitions whose results are compared with the first repetition's."""

    variants: Mapping[Variant, Callable[[int, float | None], Iterable[FrameTimeline]]]
    """Variant → function of frames and speed that yields timelines."""
    frames: int
    clock: Clock
    answers: tuple[FrameResult, ...] = ()

    def take(self, contender: tuple[Variant, float | None]) -> OverlapRepetition:
        """Run one repetition of a variant at a speed.

        Raises:
            StageError: the results differ from the first repetition's.
        """
        name, speed = contender
        watch = Stopwatch(self.clock)
        timelines = list(self.variants[name](self.frames, speed))
        times = watch.stop(watch.seconds)
        self._compare(name, tuple(timeline.answer for timeline in timelines))
        counted = timelines[_SETTLING:]
        paced = () if speed is None else counted
        return OverlapRepetition(
            **times.model_dump(),
            way=name,
            fps=_fps(counted),
            latency_ms=tuple((timeline.out_ns - timeline.due_ns) / 1e6 for timeline in paced),
            work_ms={
                stage: sum(timeline.work_ns[stage] for timeline in counted) / len(counted) / 1e6
                for stage in counted[0].work_ns
            },
        )

    def _compare(self, name: Variant, answers: tuple[FrameResult, ...]) -> None:
        self.answers = self.answers or answers
        differing = [
            f"frame {first.number} gave {first} in the first repetition, but {result}"
            for result, first in zip(answers, self.answers, strict=False)
            if result != first
        ]
        if len(answers) != len(self.answers):
            differing.append(
                f"the first repetition returned {len(self.answers)} frames, but {len(answers)}"
            )
        if differing:
            raise StageError(
                f"{differing[0]} with {name}; this is a bug in headrace: please report it",
                stage=name,
            )


def _calibrate(results: Generator[FrameTimeline, None, None], seconds: float) -> float:
    """Return the frames per second of about half a repetition."""
    timelines: list[FrameTimeline] = []
    with closing(results):
        for timeline in results:
            timelines.append(timeline)
            counted = timelines[_SETTLING:]
            if len(counted) > 1 and counted[-1].out_ns - counted[0].out_ns > seconds * 5e8:
                break
    return _fps(timelines[_SETTLING:])


def _fps(timelines: Sequence[FrameTimeline]) -> float:
    return (len(timelines) - 1) * 1e9 / (timelines[-1].out_ns - timelines[0].out_ns)


def sequential(
    work: ModelWork, source: LoadGenerator, clock: Clock
) -> Generator[FrameTimeline, None, None]:
    """Yield the timeline of each frame after it was shown; stages do not overlap."""
    waiter, show = Waiter(clock), Show()
    stages: dict[str, Callable[[Any], Any]] = {"preprocess": work.prepare}
    if work.carrier is not None:
        stages["transfer"] = work.carrier.carry
    stages["model"] = work.model.run
    with closing(source.frames(0, waiter)) as frames:
        request_ns = clock.now_ns()
        for frame in frames:
            moments = [max(request_ns, waiter.resumed_ns), clock.now_ns()]
            value: Any = frame.pixels[None]
            for stage in stages.values():
                value = stage(value)
                moments.append(clock.now_ns())
            answer = show(frame.pixels, value, frame.number)
            moments.append(clock.now_ns())
            names = ("decode", *stages, "show")
            work_ns = dict(zip(names, np.diff(moments).tolist(), strict=True))
            yield FrameTimeline(
                due_ns=frame.arrived_ns, out_ns=moments[-1], work_ns=work_ns, answer=answer
            )
            request_ns = clock.now_ns()


def threaded(work: ModelWork, source: LoadGenerator, clock: Clock) -> Iterator[FrameTimeline]:
    """Yield the timeline of each frame after a live pipeline without drops has shown it."""
    show, answers = Show(), dict[int, FrameResult]()

    def show_result(batch: ViewBatch) -> None:
        frame = batch.views[0][0]
        answers[frame.number] = show(frame.pixels, batch.outputs[0], frame.number)

    plan = LivePlan(
        sources=[source],
        model_runner=work.runner,
        overload=DropPolicy(keeps_all=True, queue=_WAITING, max_staleness_seconds=None),
        transfer=work.carrier,
        show=show_result,
    )
    with LivePipeline(plan, clock) as flow:
        for item in flow:
            frame = item.value.views[0][0]
            yield FrameTimeline(
                due_ns=frame.arrived_ns,
                out_ns=item.spans[-1].end_ns,
                work_ns=_work_ns(item.spans),
                answer=answers.pop(frame.number),
            )


def process_line(
    indexes: Sequence[StreamIndex], compute: ComputeOptions, work: ModelWork, clock: Clock
) -> ProcessPipeline:
    """Return a pipeline of decoder, preprocessing and model processes; entering starts them.

    Starting imports PyTorch, loads the model and warms it up. `work` determines the size of the
    model input.
    """
    sizes = {index.info.upright_size for index in indexes}
    tensors = [work.prepare(np.zeros((1, *size, 3), np.uint8)).nbytes for size in sizes]
    stages = stages_of(indexes, compute, work.model.input)
    return ProcessPipeline(
        stages,
        slot_bytes=SharedFrame.bytes_of(max(h * w * 3 for h, w in sizes), max(tensors)),
        # One frame in each stage, `_WAITING` before each stage, and one to show.
        slots=(1 + _WAITING) * len(stages) + 1,
        capacity=_WAITING,
        clock=clock,
    )


def in_processes(
    line: ProcessPipeline, clock: Clock, frames: int, speed: float | None
) -> Iterator[FrameTimeline]:
    """Yield the timeline of each frame after it was shown; arguments: see `LoadGenerator`."""
    show = Show()
    with closing(line.run((frames, speed))) as items:
        for item, memory in items:
            shared: SharedFrame = item.value
            start_ns = clock.now_ns()
            assert shared.labels is not None
            answer = show(shared.pixels(memory), shared.labels, shared.number)
            end_ns = clock.now_ns()
            yield FrameTimeline(
                due_ns=shared.due_ns,
                out_ns=end_ns,
                work_ns={**_work_ns(item.spans), "show": end_ns - start_ns},
                answer=answer,
            )


def _work_ns(spans: Sequence[Span]) -> dict[str, int]:
    return {span.stage: span.work_ns for span in spans}
