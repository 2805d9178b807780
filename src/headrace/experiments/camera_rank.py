"""One rank of a camera experiment: an epoch, read in one of the ways that are compared."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

from headrace.decode.bare_loop import plain_frames
from headrace.decode.index_store import IndexStore
from headrace.experiments.camera_ways import CameraWay
from headrace.experiments.delivery import collate_counted
from headrace.profiling.usage import cpu_seconds
from headrace.runtime.ordered import ordered_streams
from headrace.training.cameras.batch import Cell
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.datasets import CameraStreamDataset, CameraStreamSampler
from headrace.training.cameras.loader import CameraLoader
from headrace.video.camera_layout import CameraLayout


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
        lambda: nullcontext(lambda index: [sum(1 for _ in plain_frames(index, task.size))]),
        indexes[task.rank :: task.ranks],
        workers=task.workers,
        capacity=1,
        lookahead=len(indexes),
    )
    delivered = sum(counts)
    return delivered, delivered


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
            dataset,
            batch_sampler=batches,
            num_workers=task.workers,
            collate_fn=partial(collate_counted, dataset),
            worker_init_fn=_without_warnings,
        )
        begin()
        delivered, decoded = 0, dict[int, int]()
        for batch in loader:
            delivered += int(batch.collated["valid"].sum())
            decoded[batch.worker] = batch.counters.frames_decoded
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
