"""Variants of headrace that read the frames of a file: by seek, by plan, by clip, in order."""

import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter

import numpy as np

from benchmarks.conformance.compare_frames import Judge, Tally, run_job
from benchmarks.conformance.reference import Reference
from benchmarks.conformance.verdict import HEADRACE, WAYS, Plan, Verdict
from headrace import DecodeError, DecodeJob, EpochOrder, HeadraceError, IndexStore, StageError
from headrace.sampling.frame_samplers import ShuffledFrames
from headrace.sampling.population import Population
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

Read = Callable[[StreamIndex, Judge], None]
"""Function that reads frames of an index and passes them to the judge."""

LOOKAHEAD = 25
BATCH_SIZE = 5
CLIP_FRAMES = 8


@dataclass(frozen=True, kw_only=True)
class Task:
    """Comparison of one file."""

    path: Path
    plan: Plan
    seconds: float
    """Time after which a variant stops, with the frames compared so far."""
    store: IndexStore
    """Index store of one variant, empty at first."""

    def clock(self) -> Callable[[], bool]:
        """Return a function that returns whether the time limit, counted from now, has passed."""
        deadline = perf_counter() + self.seconds
        return lambda: perf_counter() > deadline


@dataclass(frozen=True, kw_only=True)
class FirstFrames(ShuffledFrames):
    """Sampler of the first frames of one video, each once per epoch, in random order."""

    most: int
    """Number of frames."""

    def order(self, population: Population, epoch: int) -> EpochOrder:
        """Return the order of one epoch."""
        first = Population.of([np.array([min(self.most, population.num_frames)])])
        return super().order(first, epoch)


def judge_way(way: str, task: Task, reference: Reference) -> tuple[Verdict, Judge | None]:
    """Return the verdict on one of `WAYS`; see `judge_reading`."""
    return judge_reading(way, task.path, task.store, reference, partial(_WAYS[way], task))


def judge_reading(
    way: str, path: Path, store: IndexStore, reference: Reference, read: Read
) -> tuple[Verdict, Judge | None]:
    """Return the verdict on a reader of a file, and its judge; None without an index.

    An exception other than a HeadraceError counts as a traceback.
    """
    judge = None
    try:
        index = store.load(Source.of(path))
        judge = Judge(reference, index.pts)
        read(index, judge)
    except HeadraceError as error:
        if not _is_ours(error):
            return _traceback(way, judge), judge
        counts = judge or Judge(reference, reference.pts)
        counts.refused(range(len(counts)), error)
        return counts.verdict(way), judge
    except Exception:  # noqa: BLE001
        return _traceback(way, judge), judge
    return judge.verdict(way), judge


def judge_refusal(path: Path) -> Verdict:
    """Return the verdict on a file that is no video; only an unexpected exception is a fault."""
    reason = "headrace reads it"
    try:
        StreamIndex.scan(Source.of(path))
    except HeadraceError as error:
        reason = str(error)
    except Exception:  # noqa: BLE001
        return _traceback("open", None)
    return Verdict(party=HEADRACE, way="open", right=1, reason=reason)


def by_seek(task: Task, index: StreamIndex, judge: Judge) -> None:
    """Read random frames on one decoder, with one job per frame."""
    from headrace.decode.open_decoder import open_decoder

    is_over = task.clock()
    random = Random(task.plan.seed)
    places = random.sample(range(len(judge)), min(task.plan.places, len(judge)))
    with closing(open_decoder(index)) as decoder:
        for place in places:
            run_job(decoder, DecodeJob((place,)), judge)
            if is_over():
                break


def by_plan(task: Task, index: StreamIndex, judge: Judge) -> None:
    """Read by a FrameLoader with a lookahead of 25 frames, in the size of the plan."""
    from headrace import FrameLoader

    is_over = task.clock()
    loader = FrameLoader(
        [task.path],
        batch_size=min(BATCH_SIZE, len(judge)),
        size=task.plan.size,
        sampling=FirstFrames(most=len(judge), seed=task.plan.seed),
        lookahead=LOOKAHEAD,
        num_threads=2,
        on_error="skip",
        prefetch_next_epoch=False,
        stall_seconds=None,  # the parent process ends a hang
        index_store=task.store,
    )
    count = 0
    with closing(loader):
        for batch in loader:
            pictures = batch.frames.permute(0, 2, 3, 1).numpy()
            judge.pictures(batch.index.tolist(), pictures, is_small=True)
            count += len(batch)
            if count >= task.plan.planned or is_over():
                break
        for bad in loader.quarantined:
            judge.refused(range(len(judge)) if bad.index is None else [bad.index], bad.cause)


def by_clip(task: Task, index: StreamIndex, judge: Judge) -> None:
    """Read clips of 8 frames with random starts and strides 1 to 3.

    Clips whose frames change their size are read in the size of the plan.
    """
    from headrace import load_clip

    is_over = task.clock()
    random = Random(task.plan.seed)
    count = min(CLIP_FRAMES, len(judge))
    for _ in range(task.plan.places if count else 0):
        stride = min(random.randint(1, 3), (len(judge) - 1) // max(1, count - 1) or 1)
        start = random.randrange(len(judge) - (count - 1) * stride)
        wanted = range(start, start + count * stride, stride)
        size = None if judge.share_a_size(wanted) else task.plan.size
        try:
            clip = load_clip(task.path, start, count, stride, size=size, index_store=task.store)
        except HeadraceError as error:
            if not _is_ours(error):
                raise
            missing = error.missing if isinstance(error, DecodeError) else ()
            judge.refused(missing or wanted, error)
        else:
            judge.left_out(sorted(set(wanted) - set(clip.index.tolist())))
            judge.pictures(clip.index.tolist(), clip.frames, is_small=size is not None)
        if is_over():
            break


def in_order(task: Task, index: StreamIndex, judge: Judge, *, workers: int = 1) -> None:
    """Read every frame of the file; damaged frames are skipped and listed."""
    from headrace import FrameReader

    is_over = task.clock()
    size = None if judge.reference.has_one_size else task.plan.size
    reader = FrameReader(
        [task.path], size=size, workers=workers, on_error="skip", index_store=task.store
    )
    delivered: list[int] = []
    end = len(judge)
    with closing(iter(reader)) as batches:
        for batch in batches:
            judge.pictures(batch.index.tolist(), batch.frames, is_small=size is not None)
            delivered += batch.index.tolist()
            if delivered and delivered[-1] >= len(judge):
                break
            if is_over():
                end = delivered[-1] + 1 if delivered else 0
                break
    refused = {
        n: loss.cause
        for loss in reader.losses
        for n in (range(len(judge)) if loss.index is None else [loss.index])
        if n < end
    }
    for n, cause in refused.items():
        judge.refused([n], cause)
    judge.left_out(sorted(set(range(end)) - set(delivered) - set(refused)))
    if delivered != sorted(set(delivered)):
        judge.tally.add("wrong", "frames are repeated or out of order")
    judge.unindexed()


_READS = (by_seek, by_plan, by_clip, in_order, partial(in_order, workers=2))
_WAYS: dict[str, Callable[[Task, StreamIndex, Judge], None]] = dict(zip(WAYS, _READS, strict=True))


def _is_ours(error: HeadraceError) -> bool:
    """Return whether an error was raised on purpose; a stage also forwards unexpected errors."""
    is_forwarded = isinstance(error, StageError) and error.__cause__ is not None
    return not is_forwarded or isinstance(error.__cause__, HeadraceError)


def _traceback(way: str, judge: Judge | None) -> Verdict:
    lines = [line.strip() for line in traceback.format_exc().splitlines()]
    places = [line for line in lines if line.startswith("File ")][-2:]
    tally = Tally() if judge is None else judge.tally
    return tally.verdict(HEADRACE, way, "traceback", " | ".join([lines[-1], *places]))
