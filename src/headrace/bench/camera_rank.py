"""One rank of a camera experiment: an epoch, read in one of the ways that are compared."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from headrace.bench.camera_subset import CameraPart
from headrace.bench.camera_variants import CameraWay
from headrace.decode.bare_loop import plain_frames
from headrace.decode.index_store import IndexStore
from headrace.measuring.loader_adapters import collate_counted, end_workers
from headrace.profiling.usage import cpu_seconds
from headrace.runtime.ordered import ordered_streams
from headrace.training.cameras.batch import Cell
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class RankTask:
    """What a rank does."""

    way: CameraWay
    part: CameraPart
    """What all ranks together read."""
    rank: int
    ranks: int
    workers: int
    group_num: int
    size: tuple[int, int] | None
    index_store: Path | None
    """Folder of the indexes; None means the user's."""

    @property
    def store(self) -> IndexStore:
        """Where indexes are kept."""
        return IndexStore(self.index_store) if self.index_store else IndexStore()


@dataclass(frozen=True, kw_only=True)
class RankResult:
    """What it came to."""

    delivered: int
    """Pictures."""
    decoded: int
    cpu_seconds: float


def run_rank(task: RankTask, ready: Callable[[], None]) -> RankResult:
    """Read this rank's part of one epoch; begin when all ranks are ready."""
    begun = 0.0

    def begin() -> None:
        nonlocal begun
        ready()
        begun = cpu_seconds()

    run = {"decode": _decode, "loader": _load, "dataset": _stock, "wandering": _stock}[task.way]
    delivered, decoded = run(task, begin)
    return RankResult(delivered=delivered, decoded=decoded, cpu_seconds=cpu_seconds() - begun)


def opened_dataset(task: RankTask) -> CameraStreamDataset:
    """Return what a stock DataLoader reads from; decodes nothing yet."""
    return CameraStreamDataset(
        task.part.layout,
        num_of_set=task.group_num,
        size=task.size,
        alignment=task.part.alignment,
        moments=task.part.moments,
        store=task.store,
    )


def stock_loader(dataset: CameraStreamDataset, batches: Any, task: RankTask) -> DataLoader[Any]:
    """Return a DataLoader of batches of cells, whose workers tell what they have decoded."""
    return DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=task.workers,
        collate_fn=partial(collate_counted, dataset),
        worker_init_fn=_without_warnings,
    )


def _decode(task: RankTask, begin: Callable[[], None]) -> tuple[int, int]:
    """Read each file from its beginning, as far as moments want it."""
    files = [
        (index, int(frames.max()) + 1)
        for clip in task.part.open(task.store).clips
        for index, frames in zip(clip.indexes, clip.frames.T, strict=True)
    ]

    def read(file: tuple[StreamIndex, int]) -> list[int]:
        index, count = file
        return [sum(1 for _ in islice(plain_frames(index, task.size), count))]

    begin()
    counts = ordered_streams(
        lambda: nullcontext(read),
        files[task.rank :: task.ranks],
        workers=task.workers,
        capacity=1,
        lookahead=len(files),
    )
    delivered = sum(counts)
    return delivered, delivered


def _load(task: RankTask, begin: Callable[[], None]) -> tuple[int, int]:
    with CameraLoader(
        task.part.layout,
        group_num=task.group_num,
        size=task.size,
        alignment=task.part.alignment,
        moments=task.part.moments,
        workers=task.workers,
        rank=task.rank,
        num_replicas=task.ranks,
        store=task.store,
    ) as loader:
        begin()
        for _ in loader:
            pass
        return loader.statistics.frames_delivered, loader.statistics.frames_decoded


def _stock(task: RankTask, begin: Callable[[], None]) -> tuple[int, int]:
    with opened_dataset(task) as dataset:
        if task.way == "dataset":
            batches: Any = CameraStreamSampler(
                dataset,
                group_num=task.group_num,
                num_workers=task.workers,
                interleaved=True,
                rank=task.rank,
                num_replicas=task.ranks,
            )
        else:
            batches = list(_wandering(dataset.cameras, task))
        loader = stock_loader(dataset, batches, task)
        begin()
        delivered, decoded = 0, dict[int, int]()
        epoch = iter(loader)
        try:
            for batch in epoch:
                delivered += int(batch.collated["valid"].sum())
                decoded[batch.worker] = batch.counters.frames_decoded
        finally:
            end_workers(epoch)
        return delivered, sum(decoded.values())


def _wandering(cameras: CameraSet, task: RankTask) -> Iterator[list[Cell]]:
    """Yield this rank's batches where batches, not clips, are dealt to ranks: see `CameraWay`."""
    moments = [(place, row) for place, clip in enumerate(cameras.clips) for row in range(len(clip))]
    length = len(moments) // task.group_num
    for step in range(task.rank, length, task.ranks):
        shown = [moments[slot * length + step] for slot in range(task.group_num)]
        yield [
            Cell(slot=slot, clip=clip, row=row, is_first=row == 0)
            for slot, (clip, row) in enumerate(shown)
        ]


def _without_warnings(worker: int) -> None:
    """Do not warn, in a worker, of what is measured here."""
    warnings.simplefilter("ignore", UserWarning)
