"""Epochs of `bench cameras`: calibration, cut of the clips, timing, and the work of each rank."""

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from headrace.bench.benchmark import Context
from headrace.bench.cameras import (
    CameraEstimate,
    CameraRun,
    CamerasConfig,
    CameraSetup,
    CamerasRecord,
    CameraVariant,
    worker_numbers,
)
from headrace.bench.config import unequal_frame
from headrace.decode.index_store import IndexStore
from headrace.decode.seek_check import pyav_frames
from headrace.loaders.cameras.camera_alignment import AlignedClip, Alignment
from headrace.loaders.cameras.camera_batch import SlotCell
from headrace.loaders.cameras.camera_dataset import CameraStreamDataset
from headrace.loaders.cameras.camera_loader import CameraLoader
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.stream_sampler import CameraStreamSampler
from headrace.measuring.interleaved import Stopwatch, interleave
from headrace.measuring.loader_adapters import CountedBatch, collate_counted, iterate_batches
from headrace.profiling.number_format import counted, seconds
from headrace.profiling.resource_usage import cpu_seconds
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.imap import imap
from headrace.runtime.processor_affinity import available_cores
from headrace.runtime.spawned_processes import run_ranks
from headrace.sampling.moments import Moments
from headrace.video.camera_layout import CameraLayout, camera_names
from headrace.video.stream_index import StreamIndex

_TIMEOUT_SECONDS: Final = 1800.0
_CALIBRATED: Final = 12
"""Moments of the calibration."""
_COMPARED: Final = 8
"""Max moments whose frames are compared."""
_FEWEST: Final = 2
"""Minimum moments per slot."""
_MINUTES_FROM: Final = 120
"""Seconds; shorter estimates are reported in whole seconds."""


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
        """Return the clips; 1 ms per known camera. Errors: see `CameraSet.open`."""
        return CameraSet.open(**self.source)

    def cut(self, cameras: CameraSet, moments: int, slots: int) -> "CameraSubset":
        """Return about `moments` moments, an equal number from the start of each clip.

        `slots` clips are read at a time; no slot stays empty if there are enough clips.
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


@dataclass(frozen=True, kw_only=True)
class RankTask:
    """Input of one rank."""

    setup: CameraSetup
    part: CameraSubset
    """Input of all ranks together."""
    group_num: int
    rank: int = 0

    def open_dataset(self) -> CameraStreamDataset:
        """Return the dataset of a stock DataLoader, without decoding."""
        part = self.part
        return CameraStreamDataset(**part.source, size=part.size, num_of_set=self.group_num)


def measure_cameras(config: CamerasConfig, context: Context) -> CamerasRecord:
    """Check that frames are equal, then time an epoch of each variant, ranks and workers.

    Every rank is a process, as under torch.distributed, on the same cores. A calibration estimates
    the run time and shortens the clips to fit. An uncounted first epoch fills the page cache and
    finds bad media.

    Raises:
        ConfigError: the index file is malformed, or contradicts the files.
        MediaError: a camera cannot be read, or headrace's frames differ from a PyAV loop's.
        StageError: a rank failed.
    """
    context.on_progress("opening cameras", 0, 0)
    names = camera_names(config.cameras)
    whole = CameraSubset(
        layout=CameraLayout.read(config.index_file, names, picture_rate=config.rate),
        alignment=Alignment(
            sync=config.sync, tolerance_ms=config.tolerance_ms, reference=config.reference
        ),
        size=config.size,
        store=context.store or IndexStore(),
    )
    cameras = whole.open()
    if config.size is None:
        cameras.common_size()
    provenance = context.provenance(config)
    compared = check_equal(whole, cameras.clips[0])
    # Plain decoding, the reference, is always included.
    variants: dict[CameraVariant, None] = dict.fromkeys(("decode", *config.ways))
    processes = product(config.ranks, config.workers)
    setups = [CameraSetup(variant, *by) for by in processes for variant in variants]
    subset = _subset(config, whole, cameras, [setups[0], *setups * config.repeats], context)
    runs = interleave(
        setups,
        lambda setup: _run(config, subset, setup, context),
        repeats=config.repeats,
        label=lambda setup: "{}, ranks {}, workers {}".format(*setup),
        warm_up=setups[0],
        on_progress=context.on_progress,
    )
    return CamerasRecord(
        provenance=provenance,
        clips=len(cameras.clips),
        cameras=len(cameras.cameras),
        pictures=_pictures(cameras),
        pictures_read=_pictures(subset.open()),
        compared=compared,
        runs=runs,
    )


def _subset(
    config: CamerasConfig,
    whole: CameraSubset,
    cameras: CameraSet,
    setups: Sequence[CameraSetup],
    context: Context,
) -> CameraSubset:
    """Calibrate; return the subset for each setup; report the estimated time."""
    context.on_progress("calibrating", 0, 0)
    part = whole.cut(cameras, _CALIBRATED, 1)
    decoding = RankTask(setup=CameraSetup("decode", 1, 1), part=part, group_num=config.group_num)
    calibration = partial(calibrate, workers=worker_numbers(setups), clock=SYSTEM_CLOCK)
    watch = Stopwatch(context.clock)
    [(picture_seconds, worker_seconds)], seconds_taken = run_ranks(
        calibration, [decoding], timeout_seconds=_TIMEOUT_SECONDS, clock=context.clock
    )
    indexes = [index for clip in cameras.clips for index in clip.indexes]
    estimate = CameraEstimate(
        start_seconds=max(0.0, watch.seconds - seconds_taken),
        worker_seconds=worker_seconds,
        picture_seconds=picture_seconds,
        cores=len(available_cores()),
        gop=sum(map(len, indexes)) / sum(len(index.gop_lengths) for index in indexes),
    )
    subset, pictures = whole, _pictures(cameras)
    amount = counted(pictures, "frame")
    if config.max_seconds:
        slots = config.group_num * max(setup.ranks * setup.workers for setup in setups)
        fitting = estimate.pictures(setups, config.max_seconds) // len(cameras.cameras)
        moments = max(_FEWEST * slots, fitting)
        if moments * len(cameras.cameras) < pictures:
            subset = whole.cut(cameras, moments, slots)
            pictures = _pictures(subset.open())
            amount = f"{pictures:,} of {amount} (--max-seconds 0 reads all)"
    whole_seconds = round(estimate.seconds(setups, pictures))
    duration = f"{whole_seconds} s" if whole_seconds < _MINUTES_FROM else seconds(whole_seconds)
    context.on_word(f"Time: about {duration} for {counted(len(setups), 'epoch')} of {amount}")
    return subset


def _pictures(cameras: CameraSet) -> int:
    return sum(map(len, cameras.clips)) * len(cameras.cameras)


def _run(
    config: CamerasConfig, subset: CameraSubset, setup: CameraSetup, context: Context
) -> CameraRun:
    task = RankTask(setup=setup, part=subset, group_num=config.group_num)
    watch = Stopwatch(context.clock)
    results, wall_seconds = run_ranks(
        run_rank,
        [replace(task, rank=rank) for rank in range(setup.ranks)],
        timeout_seconds=_TIMEOUT_SECONDS,
        clock=context.clock,
    )
    whole = watch.stop(watch.seconds)
    delivered, decoded, cpu_seconds = (sum(parts) for parts in zip(*results, strict=True))
    return CameraRun(
        way=setup.variant,
        ranks=setup.ranks,
        workers=setup.workers,
        seconds=wall_seconds,
        delivered=delivered,
        decoded=decoded,
        cpu_seconds=cpu_seconds,
        others_cpu_seconds=(whole.others_cpu_seconds or 0.0) * wall_seconds / whole.seconds,
    )


def check_equal(part: CameraSubset, clip: AlignedClip) -> int:
    """Compare up to 8 frames per camera of the first clip, of loader and dataset, with a PyAV loop.

    Returns the number of compared frames.

    Raises:
        DecodeError: a frame differs in any bit; the message names it.
    """
    count = min(_COMPARED, len(clip))
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


def run_rank(task: RankTask, ready: Callable[[], None]) -> tuple[int, int, float]:
    """Read this rank's part of one epoch, starting when all ranks are ready.

    Returns the frames delivered, the frames decoded, and the CPU time in seconds.
    """
    return _run_from(task, ready, cpu_seconds)


def _run_from(
    task: RankTask, ready: Callable[[], None], now: Callable[[], float]
) -> tuple[int, int, float]:
    """Return the frames delivered and decoded, and the difference of `now` since the start."""
    start = 0.0

    def begin() -> None:
        nonlocal start
        ready()
        start = now()

    runs = {"decode": _decode, "loader": _load, "dataset": _stock, "wandering": _stock}
    return *runs[task.setup.variant](task, begin), now() - start


def stock_epoch(
    dataset: CameraStreamDataset, batches: Any, workers: int
) -> Generator[CountedBatch, None, None]:
    """Yield batches from DataLoader workers; closing ends the workers: see `iterate_batches`."""
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
        files[task.rank :: task.setup.ranks],
        workers=task.setup.workers,
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
        num_threads=task.setup.workers,
        rank=task.rank,
        num_replicas=task.setup.ranks,
    ) as loader:
        begin()
        for _ in loader:
            pass
        return loader.statistics.frames_delivered, loader.statistics.frames_decoded


def _stock(task: RankTask, begin: Callable[[], None]) -> tuple[int, int]:
    with task.open_dataset() as dataset:
        batches: Any = (
            list(_wandering_batches(dataset.cameras, task))
            if task.setup.variant == "wandering"
            else CameraStreamSampler(
                dataset,
                group_num=task.group_num,
                num_workers=task.setup.workers,
                interleaved=True,
                rank=task.rank,
                num_replicas=task.setup.ranks,
            )
        )
        delivered, decoded = 0, dict[int, int]()
        begin()
        with closing(stock_epoch(dataset, batches, task.setup.workers)) as epoch:
            for batch in epoch:
                delivered += int(batch.collated["valid"].sum())
                decoded[batch.worker] = batch.counters.frames_decoded
        return delivered, sum(decoded.values())


def _wandering_batches(cameras: CameraSet, task: RankTask) -> Iterator[list[SlotCell]]:
    """Yield this rank's batches of the `wandering` variant: see `CameraVariant` in `cameras.py`."""
    cells = [
        SlotCell(slot=0, clip=number, row=int(cameras.clip_start[number]) + row, is_first=row == 0)
        for number, clip in enumerate(cameras.clips)
        for row in range(len(clip))
    ]
    length = len(cells) // task.group_num
    for step in range(task.rank, length, task.setup.ranks):
        yield [replace(cells[k * length + step], slot=k) for k in range(task.group_num)]


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
    delivered, _, nanoseconds = _run_from(task, ready, clock.now_ns)
    picture_seconds = nanoseconds / 1e9 / delivered
    worker_seconds = dict[int, float]()
    for count in workers:
        with task.open_dataset() as dataset:
            start_ns = clock.now_ns()
            for _ in stock_epoch(dataset, [[_EMPTY]] * count, count):
                pass
            worker_seconds[count] = (clock.now_ns() - start_ns) / 1e9
    return picture_seconds, worker_seconds
