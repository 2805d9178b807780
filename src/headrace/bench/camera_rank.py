"""One rank of a camera benchmark: moments, calibration, epoch."""

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from headrace.bench.config import unequal_frame
from headrace.decode.index_store import IndexStore
from headrace.decode.seek_check import pyav_frames
from headrace.loaders.cameras.camera_alignment import AlignedClip, Alignment
from headrace.loaders.cameras.camera_batch import SlotCell
from headrace.loaders.cameras.camera_dataset import CameraStreamDataset, CameraStreamSampler
from headrace.loaders.cameras.camera_loader import CameraLoader
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.measuring.loader_adapters import CountedBatch, collate_counted, iterate_batches
from headrace.profiling.resource_usage import cpu_seconds
from headrace.runtime.clock import Clock
from headrace.runtime.imap import imap
from headrace.sampling.moments import Moments
from headrace.video.camera_layout import CameraLayout
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class CameraSubset:
    """A layout, or the first moments of its first clips; equal input of all variants."""

    layout: CameraLayout
    alignment: Alignment
    store: IndexStore
    size: tuple[int, int] | None
    """(height, width); None: the cameras' own size."""
    moments: Moments | None = None
    """Moments to read; None: all."""

    @property
    def source(self) -> dict[str, Any]:
        """Arguments of `CameraSet.open`, loaders and datasets, without the size."""
        chosen = {"layout": self.layout, "alignment": self.alignment, "moments": self.moments}
        return {**chosen, "index_store": self.store}

    def open(self) -> CameraSet:
        """Return the clips; 1 ms per known camera.

        Raises:
            ConfigError: the index file contradicts the files, or no clip is left.
            MediaError: a camera cannot be read or aligned.
        """
        return CameraSet.open(**self.source)

    def cut(self, cameras: CameraSet, moments: int, slots: int) -> "CameraSubset":
        """Return about `moments` moments, an equal number from the start of each clip.

        Args:
            cameras: Clips of `open`.
            moments: Moments over all clips.
            slots: Clips read at a time; no slot stays empty if there are enough clips.
        """
        lengths = np.cumsum([len(clip) for clip in cameras.clips])
        enough = int(np.searchsorted(lengths, moments)) + 1
        clips = cameras.clips[: max(slots, enough)]
        per_clip = -(-moments // len(clips))
        listed: dict[str, NDArray[np.int64]] = {}
        for clip in clips:
            first = clip.moments[:per_clip]
            # Clips of several folders may share a name, and the selection is by name.
            listed[clip.clip.name] = min(listed.get(clip.clip.name, first), first, key=len)
        clips_read = self.layout.clips[: clips[-1].number + 1]
        return replace(
            self, layout=replace(self.layout, clips=clips_read), moments=Moments.frames(listed)
        )


_MOMENTS = 8


def check_equal(part: CameraSubset, clip: AlignedClip) -> int:
    """Compare the first frames of each camera of the first clip with a PyAV loop.

    Compares a loader and a dataset, at most 8 frames per camera of each; returns the number of
    compared frames.

    Raises:
        DecodeError: a frame differs in any bit; the message names it.
    """
    count = min(_MOMENTS, len(clip))
    with (
        CameraLoader(**part.source, size=part.size, group_num=1) as loader,
        CameraStreamDataset(**part.source, size=part.size, num_of_set=1) as dataset,
    ):
        batches = [np.asarray(batch.frames[0]) for batch in islice(loader, count)]
        sampler = CameraStreamSampler(dataset, group_num=1, rank=0, num_replicas=1)
        items = [np.asarray(dataset[cells[0]]["frames"]) for cells in islice(sampler, count)]
    compared = 0
    for camera, index in enumerate(clip.indexes):
        frame_indices = clip.frames[:count, camera].tolist()
        plain = list(islice(pyav_frames(index, part.size), max(frame_indices) + 1))
        for offset, frame_index in enumerate(frame_indices):
            for pixels in (batches[offset][camera], items[offset][camera]):
                if not np.array_equal(np.moveaxis(pixels, 0, -1), plain[frame_index]):
                    raise unequal_frame(index, frame_index, "a bare PyAV loop")
                compared += 1
    return compared


@dataclass(frozen=True, kw_only=True)
class RankTask:
    """Input of one rank."""

    variant: str
    """A `CameraVariant`, without an import of its module, which draws charts."""
    part: CameraSubset
    """Input of all ranks together."""
    rank: int
    ranks: int
    workers: int
    group_num: int


def run_rank(task: RankTask, ready: Callable[[], None]) -> tuple[int, int, float]:
    """Read this rank's part of one epoch, starting when all ranks are ready.

    Returns the frames delivered, the frames decoded, and the CPU time in seconds.
    """
    start_seconds = 0.0

    def begin() -> None:
        nonlocal start_seconds
        ready()
        start_seconds = cpu_seconds()

    run = {"decode": _decode, "loader": _load, "dataset": _stock, "wandering": _stock}[task.variant]
    return *run(task, begin), cpu_seconds() - start_seconds


def open_dataset(task: RankTask) -> CameraStreamDataset:
    """Return the dataset of a stock DataLoader, without decoding."""
    return CameraStreamDataset(**task.part.source, size=task.part.size, num_of_set=task.group_num)


def stock_epoch(
    dataset: CameraStreamDataset, batches: Any, workers: int
) -> Generator[CountedBatch, None, None]:
    """Yield batches from DataLoader workers; closing ends the workers and waits for them.

    Raises:
        StageError: a worker failed; with the worker's message.
    """
    loader = DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=partial(collate_counted, dataset),
        worker_init_fn=_without_warnings,
    )
    return iterate_batches(loader)


def _decode(task: RankTask, begin: Callable[[], None]) -> tuple[int, int]:
    """Decode each file from its start up to its last moment."""
    files = [
        (index, int(frames.max()) + 1)
        for clip in task.part.open().clips
        for index, frames in zip(clip.indexes, clip.frames.T, strict=True)
    ]

    def read(file: tuple[StreamIndex, int]) -> list[int]:
        index, count = file
        return [sum(1 for _ in islice(pyav_frames(index, task.part.size), count))]

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
        **task.part.source,
        size=task.part.size,
        group_num=task.group_num,
        num_threads=task.workers,
        rank=task.rank,
        num_replicas=task.ranks,
    ) as loader:
        begin()
        for _ in loader:
            pass
        return loader.statistics.frames_delivered, loader.statistics.frames_decoded


def _stock(task: RankTask, begin: Callable[[], None]) -> tuple[int, int]:
    with open_dataset(task) as dataset:
        batches: Any = (
            list(_wandering_batches(dataset.cameras, task))
            if task.variant == "wandering"
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


def _wandering_batches(cameras: CameraSet, task: RankTask) -> Iterator[list[SlotCell]]:
    """Yield this rank's batches of the `wandering` variant: see `CameraVariant` in `cameras.py`."""
    moments = [
        (offset, row) for offset, clip in enumerate(cameras.clips) for row in range(len(clip))
    ]
    length = len(moments) // task.group_num
    for step in range(task.rank, length, task.ranks):
        batch = [moments[slot * length + step] for slot in range(task.group_num)]
        yield [
            SlotCell(
                slot=slot,
                clip=clip,
                row=int(cameras.clip_start[clip]) + row,
                is_first=row == 0,
            )
            for slot, (clip, row) in enumerate(batch)
        ]


def _without_warnings(worker: int) -> None:
    """Silence UserWarnings in a worker."""
    warnings.simplefilter("ignore", UserWarning)


_EMPTY = SlotCell(slot=0, clip=-1, row=-1, is_first=False)
"""Empty slot, for which nothing is decoded."""


def calibrate(
    task: RankTask, ready: Callable[[], None], *, workers: Sequence[int], clock: Clock
) -> tuple[float, dict[int, float]]:
    """Decode the frames of a task, then start and end idle DataLoader workers.

    Returns the seconds per frame; and number of workers → seconds to start them, receive a batch
    from each, and end them.
    """
    start_ns = 0

    def begin() -> None:
        nonlocal start_ns
        ready()
        start_ns = clock.now_ns()

    delivered, _, _ = run_rank(task, begin)
    picture_seconds = (clock.now_ns() - start_ns) / 1e9 / delivered
    worker_seconds = dict[int, float]()
    for count in workers:
        with open_dataset(task) as dataset:
            start_ns = clock.now_ns()
            for _ in stock_epoch(dataset, [[_EMPTY]] * count, count):
                pass
            worker_seconds[count] = (clock.now_ns() - start_ns) / 1e9
    return picture_seconds, worker_seconds
