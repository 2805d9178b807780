"""One rank of a camera experiment: an epoch, read in one of the ways that are compared."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch.utils.data import DataLoader, default_collate, get_worker_info

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.experiments.usage import cpu_seconds
from headrace.runtime.ordered import ordered_streams
from headrace.sampling.slots import SlotSchedule
from headrace.training.cameras.batch import Cell
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.datasets import CameraStreamDataset, CameraStreamSampler
from headrace.training.cameras.lanes import cell_at
from headrace.training.cameras.loader import CameraLoader
from headrace.video.camera_layout import CameraLayout
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

CameraWay = Literal["decode", "loader", "dataset", "wandering"]
"""`decode`: every file from end to end, in threads, and nothing else: what can be reached.
`loader`: a `CameraLoader`. `dataset`: a DataLoader with a `CameraStreamSampler`. `wandering`: a
DataLoader whose batches go round ranks and workers, as in the example that this replaces."""


@dataclass(frozen=True, kw_only=True)
class RankTask:
    """What a rank does."""

    way: CameraWay
    index_file: Path
    rank: int
    ranks: int
    workers: int
    group_num: int
    size: tuple[int, int] | None
    index_store: Path | None
    """Folder of the indexes; None means the user's."""


@dataclass(frozen=True, kw_only=True)
class RankResult:
    """What it came to."""

    delivered: int
    """Pictures."""
    decoded: int
    cpu_seconds: float


def run_rank(task: RankTask, ready: Callable[[], None]) -> RankResult:
    """Read this rank's part of one epoch; begin when all ranks are ready."""
    store = IndexStore(task.index_store) if task.index_store else IndexStore()
    layout = CameraLayout.read(task.index_file)
    begun = 0.0

    def begin() -> None:
        nonlocal begun
        ready()
        begun = cpu_seconds()

    run = {"decode": _decode, "loader": _load, "dataset": _stock, "wandering": _stock}[task.way]
    delivered, decoded = run(task, layout, store, begin)
    return RankResult(delivered=delivered, decoded=decoded, cpu_seconds=cpu_seconds() - begun)


def _decode(
    task: RankTask, layout: CameraLayout, store: IndexStore, begin: Callable[[], None]
) -> tuple[int, int]:
    found = CameraSet.open(layout, store=store)
    indexes = [index for clip in found.clips for index in clip.indexes]
    begin()
    counts = ordered_streams(
        lambda: nullcontext(partial(_count, FrameShape(size=task.size))),
        indexes[task.rank :: task.ranks],
        workers=task.workers,
        capacity=1,
        lookahead=len(indexes),
    )
    delivered = sum(counts)
    return delivered, delivered


def _count(shape: FrameShape, index: StreamIndex) -> list[int]:
    decoder = open_decoder(index, shape)
    try:
        whole = DecodeJob(tuple(range(len(index))), goes_on=False)
        return [sum(1 for _ in decoder.run(whole))]
    finally:
        decoder.close()


def _load(
    task: RankTask, layout: CameraLayout, store: IndexStore, begin: Callable[[], None]
) -> tuple[int, int]:
    with CameraLoader(
        layout,
        group_num=task.group_num,
        size=task.size,
        workers=task.workers,
        rank=task.rank,
        num_replicas=task.ranks,
        store=store,
    ) as loader:
        begin()
        for _ in loader:
            pass
        return loader.statistics.frames_delivered, loader.statistics.frames_decoded


def _stock(
    task: RankTask, layout: CameraLayout, store: IndexStore, begin: Callable[[], None]
) -> tuple[int, int]:
    with CameraStreamDataset(
        layout, num_of_set=task.group_num, size=task.size, store=store
    ) as dataset:
        if task.way == "dataset":
            batches: Any = CameraStreamSampler(
                dataset,
                group_num=task.group_num,
                num_workers=task.workers,
                rank=task.rank,
                num_replicas=task.ranks,
            )
        else:
            batches = list(_wandering(dataset.cameras, task))
        loader = DataLoader(
            dataset, batch_sampler=batches, num_workers=task.workers, collate_fn=_with_decoded
        )
        begin()
        delivered, decoded = 0, dict[int, int]()
        for batch, worker, so_far in loader:
            delivered += int(batch["valid"].sum())
            decoded[worker] = so_far
        return delivered, sum(decoded.values())


def _wandering(cameras: CameraSet, task: RankTask) -> Iterator[list[Cell]]:
    """Yield this rank's batches where batches, not clips, are dealt to ranks: r, r + ranks, ..."""
    sequences = cameras.sequences(1)
    schedule = SlotSchedule(lengths=sequences[:, 2] - sequences[:, 1], slots=task.group_num)
    plan = schedule.plan(0)
    for step in range(task.rank, plan.num_steps, task.ranks):
        yield [cell_at(plan, sequences, slot, step) for slot in range(task.group_num)]


def _with_decoded(items: list[dict[str, Any]]) -> tuple[Any, int, int]:
    """Return the batch, the worker, and what it has decoded so far."""
    worker = get_worker_info()
    assert worker is not None
    dataset: Any = worker.dataset
    return default_collate(items), worker.id, dataset.counters.frames_decoded
