"""Search of `bench stability`: candidates in order, and their repetitions."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from headrace.bench.benchmark import Context
from headrace.bench.config import indexes_of
from headrace.bench.model_work import ModelWork, ready_work
from headrace.bench.stability import (
    Candidate,
    StabilityConfig,
    StabilityRecord,
    StabilityRepetition,
)
from headrace.errors import ConfigError
from headrace.measuring.interleaved import Stopwatch
from headrace.profiling.number_format import counted
from headrace.profiling.provenance import record_of
from headrace.runs.run_inputs import batches_of
from headrace.runs.run_stages import SOURCE, Transfers, stages_of
from headrace.runtime.clock import Clock
from headrace.runtime.pipeline import Pipeline
from headrace.video.stream_index import StreamIndex


def measure_stability(config: StabilityConfig, context: Context) -> StabilityRecord:
    """Try candidates until the smallest steady one is known, or the time limit is reached."""
    [index] = indexes_of(config.videos, context.store)
    batch_sizes = _possible_sizes(config.batch_sizes, len(index), str(index.source))
    provenance = context.provenance(config)
    clock, repetitions = context.clock, list[StabilityRepetition]()
    is_steady, unbegun = dict[Candidate, bool](), None
    compute = config.compute_options(max(batch_sizes))
    with ready_work(compute, clock) as (work, model_seconds):
        start_ns = clock.now_ns()
        for candidate in candidates(batch_sizes, config.queue_depths, is_steady):
            seconds_left = config.max_seconds - (clock.now_ns() - start_ns) / 1e9
            if is_steady and _needed_seconds(repetitions, candidate, config.repeats) > seconds_left:
                unbegun = (candidate.batch_size, candidate.queue_depth)
                break
            for _ in range(config.repeats):
                context.on_progress(str(candidate), len(repetitions), 0)
                repetitions.append(
                    run_candidate(work, index, candidate, iterations=config.iterations, clock=clock)
                )
            is_steady[candidate] = (
                median(repetition.cv for repetition in repetitions[-config.repeats :])
                < config.target
            )
    return record_of(
        StabilityRecord,
        config,
        provenance=provenance,
        run_depth=Pipeline.capacity,
        model_seconds=model_seconds,
        left_out=tuple(size for size in config.batch_sizes if size not in batch_sizes),
        unbegun=unbegun,
        turns=tuple(repetitions),
    )


def _possible_sizes(batch_sizes: Sequence[int], frames: int, source: str) -> tuple[int, ...]:
    possible = tuple(size for size in batch_sizes if size <= frames)
    if not possible:
        raise ConfigError(
            f"{source} has {counted(frames, 'frame')}, fewer than the smallest batch of "
            f"{min(batch_sizes)}; use smaller --batch-sizes or a longer video"
        )
    return possible


def _needed_seconds(
    repetitions: Sequence[StabilityRepetition], candidate: Candidate, repeats: int
) -> float:
    """Return the predicted seconds of a candidate, by the last repetition's time per frame."""
    last = repetitions[-1]
    results = (len(last.fps) + warm_up_of(candidate.queue_depth)) / (len(last.fps) + last.warm_up)
    return repeats * last.seconds * results * candidate.batch_size / last.batch_size


def run_candidate(
    work: ModelWork, index: StreamIndex, candidate: Candidate, *, iterations: int, clock: Clock
) -> StabilityRepetition:
    """Run a video through the stages of `headrace run`, without sinks.

    A short video restarts. The run ends before its input, so that all stages are busy until the
    end.

    Args:
        work: Model, ready, and its preprocessing.
        index: Index of the video; at least one batch of frames.
        candidate: Batch size and queue depth.
        iterations: Counted full batches.
        clock: Clock for the timings.

    Raises:
        MediaError: a frame cannot be decoded.
        StageError: the model fails.
    """
    batch_size, warm_up = candidate.batch_size, warm_up_of(candidate.queue_depth)
    full_batches = len(index) // batch_size
    # One more pass than counted, for frames in flight at the end.
    passes = -(-(warm_up + 1 + iterations) // full_batches) + 1
    in_flight = -(-8 * candidate.queue_depth // full_batches)
    carriers = Transfers.of(work.model, prep_on_gpu=False)
    pipeline = Pipeline(
        source=batches_of([index] * (passes + in_flight), batch_size=batch_size, clock=clock),
        stages=stages_of(work.prepare, carriers, work.model, sinks=()),
        capacity=candidate.queue_depth,
        source_name=SOURCE,
        traces_source=False,
    )
    out_ns, frames = list[int](), list[int]()
    watch, counted = Stopwatch(clock), 0
    with pipeline.run(clock=clock) as run:
        for number, item in enumerate(run):
            if number < warm_up - 1:
                continue
            out_ns.append(item.spans[-1].end_ns)
            frames.append(item.value["frames"])
            counted += len(frames) > 1 and frames[-1] == batch_size
            if counted == iterations:
                break
    times = watch.stop(watch.seconds)
    fps, total, nanoseconds = fps_by_iteration(out_ns, frames, batch_size)
    return StabilityRepetition(
        **times.model_dump(),
        batch_size=batch_size,
        queue_depth=candidate.queue_depth,
        warm_up=warm_up,
        fps=tuple(fps),
        frames_per_second=total * 1e9 / nanoseconds,
    )


def warm_up_of(queue_depth: int) -> int:
    """Return the number of uncounted results: enough to fill the queues before the model."""
    return max(10, 3 * (queue_depth + 1))


def fps_by_iteration(
    out_ns: Sequence[int], frames: Sequence[int], batch_size: int
) -> tuple[list[float], int, int]:
    """Return the FPS of each iteration, and their frames and nanoseconds.

    Args:
        out_ns: Time of each result, ascending; counting starts at the first.
        frames: Frames of each result. Shorter batches, for example the last of a video, do not
            count.
        batch_size: Frames in a full batch.
    """
    fps, nanoseconds = [], 0
    for before, now, number in zip(out_ns, out_ns[1:], frames[1:], strict=False):
        if number == batch_size:
            interval_ns = max(1, now - before)
            fps.append(batch_size * 1e9 / interval_ns)
            nanoseconds += interval_ns
    return fps, batch_size * len(fps), nanoseconds


def candidates(
    batch_sizes: Sequence[int], queue_depths: Sequence[int], is_steady: Mapping[Candidate, bool]
) -> Iterator[Candidate]:
    """Yield candidates; add each result to `is_steady` before requesting the next candidate.

    Batch sizes ascend, each with the deepest queues, until one is steady. The shortest steady
    queues are then found by bisection, assuming that deeper queues are no worse.
    """
    depths = sorted(set(queue_depths))
    for batch_size in sorted(set(batch_sizes)):
        by_depth = [Candidate(batch_size=batch_size, queue_depth=depth) for depth in depths]
        yield by_depth[-1]
        if is_steady[by_depth[-1]]:
            unsteady, steady = -1, len(by_depth) - 1
            while steady - unsteady > 1:
                middle = (unsteady + steady) // 2
                yield by_depth[middle]
                if is_steady[by_depth[middle]]:
                    steady = middle
                else:
                    unsteady = middle
            return
