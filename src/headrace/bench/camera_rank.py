"""One rank of a camera benchmark: which moments it reads, its calibration, its epoch."""

import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from headrace.bench.camera_estimate import CameraVariant
from headrace.decode.index_store import IndexStore
from headrace.decode.pyav_baseline import pyav_frames
from headrace.errors import DecodeError
from headrace.loaders.cameras.aligned_clip import AlignedClip
from headrace.loaders.cameras.camera_alignment import Alignment
from headrace.loaders.cameras.camera_dataset import CameraStreamDataset
from headrace.loaders.cameras.camera_loader import CameraLoader
from headrace.loaders.cameras.camera_set import CameraSet, SlotCell
from headrace.loaders.cameras.stream_sampler import CameraStreamSampler
from headrace.measuring.loader_adapters import CountedBatch, collate_counted, end_workers
from headrace.profiling.resource_usage import cpu_seconds
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.imap import imap
from headrace.sampling.moments import Moments
from headrace.video.camera_layout import CameraLayout
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class CameraSubset:
    """All that is in a layout, or the first moments of its first clips; what every way is given."""

    layout: CameraLayout
    alignment: Alignment
    moments: Moments | None = None
    """Which are read; None means all."""

    def open(self, store: IndexStore) -> CameraSet:
        """Return its clips; 1 ms for a camera that was seen before.

        Raises:
            ConfigError: the index file disagrees with the files, or no clip is left.
            MediaError: a camera cannot be read or aligned.
        """
        return CameraSet.open(self.layout, self.alignment, moments=self.moments, index_store=store)

    def reading(self, size: tuple[int, int] | None, store: IndexStore) -> dict[str, Any]:
        """Return the options by which loaders and datasets read it, but for the layout."""
        chosen = {"alignment": self.alignment, "moments": self.moments}
        return {**chosen, "size": size, "index_store": store}

    def cut(self, found: CameraSet, moments: int, slots: int) -> "CameraSubset":
        """Return about so many moments of it: equally many from the beginning of each clip.

        Args:
            found: What `open` returned.
            moments: Of all clips together.
            slots: Clips that are read at a time; where there are so many, none is without one.
        """
        lengths = np.cumsum([len(clip) for clip in found.clips])
        enough = int(np.searchsorted(lengths, moments)) + 1
        clips = found.clips[: max(slots, enough)]
        of_each = -(-moments // len(clips))
        listed: dict[str, NDArray[np.int64]] = {}
        for clip in clips:
            first = clip.moments[:of_each]
            # Clips of several folders may have one name, and a choice is by name.
            listed[clip.clip.name] = min(listed.get(clip.clip.name, first), first, key=len)
        kept = self.layout.clips[: clips[-1].number + 1]
        return replace(
            self, layout=replace(self.layout, clips=kept), moments=Moments.frames(listed)
        )


_MOMENTS = 8


def check_equal_cameras(
    part: CameraSubset, clip: AlignedClip, store: IndexStore, size: tuple[int, int] | None
) -> int:
    """Hold the first frames of each camera of the first clip against a bare PyAV loop.

    Returns how many were compared, of a loader and a dataset: at most 8 for each camera and both.

    Raises:
        DecodeError: one differs in any bit; names it.
    """
    count, reading = min(_MOMENTS, len(clip)), part.reading(size, store)
    with (
        CameraLoader(part.layout, group_num=1, **reading) as loader,
        CameraStreamDataset(part.layout, num_of_set=1, **reading) as dataset,
    ):
        batches = [np.asarray(batch.frames[0]) for batch in islice(loader, count)]
        sampler = CameraStreamSampler(dataset, group_num=1, rank=0, num_replicas=1)
        items = [np.asarray(dataset[cells[0]]["frames"]) for cells in islice(sampler, count)]
    compared = 0
    for camera, index in enumerate(clip.indexes):
        numbers = clip.frames[:count, camera].tolist()
        read = islice(pyav_frames(index, size), max(numbers) + 1)
        plain = {number: frame for number, frame in enumerate(read) if number in numbers}
        for place, number in enumerate(numbers):
            for ours in (batches[place][camera], items[place][camera]):
                if not np.array_equal(np.moveaxis(ours, 0, -1), plain[number]):
                    raise DecodeError(
                        f"frame {number} of {index.source} is not the same from a bare PyAV loop "
                        "and from headrace, so nothing was timed; `headrace doctor --parity` "
                        "tells whether a linear read agrees with headrace",
                        source=str(index.source),
                        pts=int(index.pts[number]),
                    )
                compared += 1
    return compared


@dataclass(frozen=True, kw_only=True)
class RankTask:
    """What a rank does."""

    way: CameraVariant
    part: CameraSubset
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

    @property
    def reading(self) -> dict[str, Any]:
        """The options by which loaders and datasets read, but for the layout."""
        return self.part.reading(self.size, self.store)


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
    return CameraStreamDataset(task.part.layout, num_of_set=task.group_num, **task.reading)


def stock_epoch(
    dataset: CameraStreamDataset, batches: Any, workers: int
) -> Generator[CountedBatch, None, None]:
    """Yield batches of cells from workers of a DataLoader; ends and waits for them when closed."""
    loader = DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=partial(collate_counted, dataset),
        worker_init_fn=_without_warnings,
    )
    epoch = iter(loader)
    try:
        yield from epoch
    finally:
        end_workers(epoch)


def _decode(task: RankTask, begin: Callable[[], None]) -> tuple[int, int]:
    """Read each file from its beginning, as far as moments want it."""
    files = [
        (index, int(frames.max()) + 1)
        for clip in task.part.open(task.store).clips
        for index, frames in zip(clip.indexes, clip.frames.T, strict=True)
    ]

    def read(file: tuple[StreamIndex, int]) -> list[int]:
        index, count = file
        return [sum(1 for _ in islice(pyav_frames(index, task.size), count))]

    begin()
    counts = imap(
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
        num_threads=task.workers,
        rank=task.rank,
        num_replicas=task.ranks,
        **task.reading,
    ) as loader:
        begin()
        for _ in loader:
            pass
        return loader.statistics.frames_delivered, loader.statistics.frames_decoded


def _stock(task: RankTask, begin: Callable[[], None]) -> tuple[int, int]:
    with opened_dataset(task) as dataset:
        batches: Any = (
            list(_wandering(dataset.cameras, task))
            if task.way == "wandering"
            else CameraStreamSampler(
                dataset,
                group_num=task.group_num,
                num_workers=task.workers,
                interleaved=True,
                rank=task.rank,
                num_replicas=task.ranks,
            )
        )
        delivered, decoded = 0, dict[int, int]()
        begin()
        with closing(stock_epoch(dataset, batches, task.workers)) as epoch:
            for batch in epoch:
                delivered += int(batch.collated["valid"].sum())
                decoded[batch.worker] = batch.counters.frames_decoded
        return delivered, sum(decoded.values())


def _wandering(cameras: CameraSet, task: RankTask) -> Iterator[list[SlotCell]]:
    """Yield this rank's batches where ranks get batches, not clips: see `CameraVariant`."""
    moments = [(place, row) for place, clip in enumerate(cameras.clips) for row in range(len(clip))]
    length = len(moments) // task.group_num
    for step in range(task.rank, length, task.ranks):
        shown = [moments[slot * length + step] for slot in range(task.group_num)]
        yield [
            SlotCell(
                slot=slot,
                clip=clip,
                row=int(cameras.clip_start[clip]) + row,
                is_first=row == 0,
            )
            for slot, (clip, row) in enumerate(shown)
        ]


def _without_warnings(worker: int) -> None:
    """Do not warn, in a worker, of what is measured here."""
    warnings.simplefilter("ignore", UserWarning)


_EMPTY = SlotCell(slot=0, clip=-1, row=-1, is_first=False)
"""A slot that has run out of clips: nothing is decoded for it."""


@dataclass(frozen=True, kw_only=True)
class CalibrationTask:
    """What a process rehearses."""

    decoding: RankTask
    workers: tuple[int, ...]
    """Numbers of workers whose start in a DataLoader is timed."""
    clock: Clock = SYSTEM_CLOCK


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What it took."""

    decode_seconds: float
    delivered: int
    """Pictures, in that time."""
    worker_seconds: dict[int, float]
    """Number of workers → from their start until each had given a batch, and they were ended."""


def rehearse(task: CalibrationTask, ready: Callable[[], None]) -> Calibration:
    """Decode what there is, then start and end workers that decode nothing."""
    begun_ns = 0

    def begin() -> None:
        nonlocal begun_ns
        ready()
        begun_ns = task.clock.now_ns()

    result = run_rank(task.decoding, begin)
    decode_seconds, worker_seconds = (task.clock.now_ns() - begun_ns) / 1e9, dict[int, float]()
    for workers in task.workers:
        with opened_dataset(task.decoding) as dataset:
            begun_ns = task.clock.now_ns()
            for _ in stock_epoch(dataset, [[_EMPTY]] * workers, workers):
                pass
            worker_seconds[workers] = (task.clock.now_ns() - begun_ns) / 1e9
    return Calibration(
        decode_seconds=decode_seconds, delivered=result.delivered, worker_seconds=worker_seconds
    )
