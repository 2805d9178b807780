"""The pipeline of a run, its queues as deep as asked for, timed result by result."""

from headrace.bench.overlap_work import Work
from headrace.bench.stability_search import Candidate
from headrace.bench.stability_turn import StabilityTurn, fps_by_iteration, warm_up_of
from headrace.measuring.interleaved import Stopwatch
from headrace.runs.reading import batches_of
from headrace.runs.stages import SOURCE, Carriers, stages_of
from headrace.runtime.clock import Clock
from headrace.runtime.pipeline import Pipeline
from headrace.video.stream_index import StreamIndex


def take_stability_turn(
    work: Work, index: StreamIndex, candidate: Candidate, *, iterations: int, clock: Clock
) -> StabilityTurn:
    """Run a video through the stages of `headrace run`; nothing is drawn or written.

    It begins again where it is short. It ends while there is more to read, so that all stages are
    busy to the end.

    Args:
        work: The model, ready, and its preprocessing.
        index: Of the video, which has at least as many frames as a batch.
        candidate: Batch size and queue depth.
        iterations: Whole batches that count.
        clock: What measures.

    Raises:
        MediaError: a frame cannot be decoded.
        StageError: the model fails.
    """
    batch_size, warm_up = candidate.batch_size, warm_up_of(candidate.queue_depth)
    whole = len(index) // batch_size
    # One pass more than is needed: what is under way when it ends.
    passes = -(-(warm_up + 1 + iterations) // whole) + 1
    under_way = -(-8 * candidate.queue_depth // whole)
    pipeline = Pipeline(
        source=batches_of([index] * (passes + under_way), batch_size=batch_size, clock=clock),
        stages=stages_of(
            work.prepare, Carriers.of(work.model, prep_on_gpu=False), work.model, sinks=()
        ),
        capacity=candidate.queue_depth,
        source_name=SOURCE,
        marks_source=False,
    )
    out_ns: list[int] = []
    frames: list[int] = []
    watch, counted = Stopwatch(clock), 0
    with pipeline.run(clock=clock) as run:
        for number, item in enumerate(run):
            if number < warm_up - 1:
                continue
            out_ns.append(item.spans[-1].end_ns)
            frames.append(item.value.frames)
            counted += len(frames) > 1 and frames[-1] == batch_size
            if counted == iterations:
                break
    spent = watch.turn(watch.seconds)
    fps, total, nanoseconds = fps_by_iteration(out_ns, frames, batch_size)
    return StabilityTurn(
        **spent.model_dump(),
        batch_size=batch_size,
        queue_depth=candidate.queue_depth,
        warm_up=warm_up,
        fps=tuple(fps),
        frames_per_second=total * 1e9 / nanoseconds,
    )
