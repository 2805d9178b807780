"""Variants of `bench overlap`: sequential stages, threads, processes."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Final

import numpy as np

from headrace.bench.overlap_decoding import SharedFrame
from headrace.bench.overlap_work import FrameResult, FrameTimeline, Show, StageCosts, stages_of
from headrace.live.drop_policy import DropPolicy
from headrace.live.realtime_file import LoadGenerator
from headrace.runs.live.live_batches import ModelOutputs, ModelRunner
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.clock import Clock
from headrace.runtime.item import Span
from headrace.runtime.process_pipeline import ProcessPipeline
from headrace.runtime.waitable_source import Waiter
from headrace.video.stream_index import StreamIndex

_WAITING: Final = 2
"""Max frames waiting before a stage, in threads and in processes."""


def sequential(
    work: StageCosts, source: LoadGenerator, clock: Clock
) -> Generator[FrameTimeline, None, None]:
    """Yield each frame when it was shown; frames do not overlap."""
    waiter, show = Waiter(clock), Show()
    with closing(source.frames(0, waiter)) as frames:
        asked_ns = clock.now_ns()
        for frame in frames:
            moments = [max(asked_ns, waiter.resumed_ns), clock.now_ns()]
            tensor = work.prepare(frame.pixels[None])
            moments.append(clock.now_ns())
            if work.carrier is not None:
                tensor = work.carrier.carry(tensor)
                moments.append(clock.now_ns())
            labels = work.infer(tensor)
            moments.append(clock.now_ns())
            answer = show(frame.pixels, labels, frame.number)
            moments.append(clock.now_ns())
            transfer = [] if work.carrier is None else ["transfer"]
            names = ["decode", "preprocess", *transfer, "model", "show"]
            spent = dict(zip(names, np.diff(moments).tolist(), strict=True))
            yield FrameTimeline(
                due_ns=frame.arrived_ns, out_ns=moments[-1], work_ns=spent, answer=answer
            )
            asked_ns = clock.now_ns()


def threaded(work: StageCosts, source: LoadGenerator, clock: Clock) -> Iterator[FrameTimeline]:
    """Yield each frame when a live pipeline, without drops, has shown it."""
    show, answers = Show(), dict[int, FrameResult]()

    def showing(answered: ModelOutputs) -> None:
        frame = answered.batch.views[0][0]
        answers[frame.number] = show(frame.pixels, answered.outputs[0], frame.number)

    plan = LivePlan(
        sources=[source],
        model_runner=ModelRunner(prepare=work.prepare, run=work.infer, device=work.device),
        overload=DropPolicy(keeps_all=True, queue=_WAITING, max_staleness_seconds=None),
        transfer=work.carrier,
        show=showing,
    )
    with LivePipeline(plan, clock) as flow:
        for item in flow:
            frame = item.value.batch.views[0][0]
            yield FrameTimeline(
                due_ns=frame.arrived_ns,
                out_ns=item.spans[-1].end_ns,
                work_ns=_work_ns(item.spans),
                answer=answers.pop(frame.number),
            )


def process_line(
    indexes: Sequence[StreamIndex], compute: ComputeOptions, work: StageCosts, clock: Clock
) -> ProcessPipeline:
    """Return a pipeline of decoder, preprocessing and model processes; entering starts them.

    Starting imports PyTorch, loads the model and warms it up. `work` gives the size of the model
    input.
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
    """Yield each frame when it was shown; `frames` and `speed`: see `LoadGenerator`."""
    show = Show()
    with closing(line.run((frames, speed))) as passed:
        for item in passed:
            shared: SharedFrame = item.value
            began_ns = clock.now_ns()
            assert shared.labels is not None
            answer = show(shared.pixels(item.memory), shared.labels, shared.number)
            ended_ns = clock.now_ns()
            yield FrameTimeline(
                due_ns=shared.due_ns,
                out_ns=ended_ns,
                work_ns={**_work_ns(item.spans), "show": ended_ns - began_ns},
                answer=answer,
            )


def _work_ns(spans: Sequence[Span]) -> dict[str, int]:
    return {span.stage: span.work_ns for span in spans}
