"""Loaders under measurement: FrameLoader, stock DataLoader, and a baseline that seeks per frame."""

import re
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from headrace.decode.protocol import DecodeCounters
from headrace.errors import DecodeError, StageError, in_one_line
from headrace.loaders.cameras.camera_dataset import CameraStreamDataset
from headrace.loaders.datasets import VideoDataset
from headrace.loaders.frame_dataset import EpochSampler, FrameDataset
from headrace.loaders.frame_loader import Batch, FrameLoader
from headrace.loaders.video_set import VideoSet
from headrace.measuring.decode_counts import EpochRepetition, count_fields
from headrace.measuring.interleaved import Stopwatch
from headrace.profiling.resource_usage import memory_bytes
from headrace.runtime.clock import Clock
from headrace.video.container import open_container
from headrace.video.stream_index import StreamIndex

_PREFETCHED: Final = 2
"""Default prefetch_factor of a DataLoader."""


class SeekPerFrame(Dataset[torch.Tensor]):
    """Naive dataset of all frames: `dataset[n]` opens, seeks, and decodes up to frame n.

    No file stays open between frames. headrace's index provides frame counts and pts, so the frame
    is correct at any frame rate. FFmpeg uses PyAV's default number of threads.
    """

    def __init__(self, videos: VideoSet, size: tuple[int, int]) -> None:
        """Store the videos; `size` is (height, width) of the frames."""
        self.counters = DecodeCounters()
        """Decode counters of this process so far."""
        self._videos = videos
        self._size = size

    def __len__(self) -> int:
        """Return the number of frames of all videos."""
        return self._videos.population.num_frames

    def __getitem__(self, frame: int) -> torch.Tensor:
        """Return one frame, indexed over all videos: uint8 [3, H, W] in [0, 255], RGB.

        Raises:
            OpenError: its file cannot be opened.
            DecodeError: a plain seek does not find the frame.
        """
        video, frame_index = map(int, self._videos.population.locate(np.array(frame)))
        index = self._videos.indexes[video]
        try:
            pixels = self._seek(index, int(index.pts[frame_index]))
        except (ValueError, OSError, EOFError) as error:  # bases of all FFmpeg errors
            raise _seek_error(index, frame_index) from error
        if pixels is None:
            raise _seek_error(index, frame_index)
        upright = np.ascontiguousarray(index.info.orientation.upright(pixels))
        return torch.from_numpy(upright).permute(2, 0, 1)

    def _seek(self, index: StreamIndex, pts: int) -> NDArray[np.uint8] | None:
        """Return the frame at `pts` as stored, uint8 [H, W, 3]; None: not found."""
        stored = (index.info.height, index.info.width)
        height, width = index.info.orientation.upright_size(self._size)
        shrinks = height <= stored[0] and width <= stored[1]
        container, stream = open_container(index.source)
        with container:
            self.counters.opens += 1
            container.seek(pts, stream=stream)
            self.counters.seeks += 1
            for frame in container.decode(stream):
                self.counters.frames_decoded += 1
                if frame.pts is None or frame.pts < pts:
                    continue
                if frame.pts > pts:
                    return None
                pixels = frame.to_ndarray(
                    format="rgb24",
                    height=height,
                    width=width,
                    interpolation="AREA" if shrinks else "BICUBIC",
                )
                return np.asarray(pixels, np.uint8)
        return None


def _seek_error(index: StreamIndex, frame_index: int) -> DecodeError:
    return DecodeError(
        f"a plain seek does not find frame {frame_index} of {index.source} (at "
        f"{index.seconds(frame_index):.3f} s), so the baseline cannot read this video; leave it "
        "out",
        source=str(index.source),
        pts=int(index.pts[frame_index]),
        missing=(frame_index,),
    )


Counting = SeekPerFrame | FrameDataset | VideoDataset | CameraStreamDataset
"""Map-style dataset with decode counters of its process."""


@dataclass(frozen=True, kw_only=True)
class CountedBatch:
    """Batch with decode counters."""

    collated: Any
    """Batch of `default_collate`."""
    items: int
    worker: int
    """Worker id; 0 without workers."""
    counters: DecodeCounters
    """Decode counters of that worker so far."""


def collate_counted(dataset: Counting, items: list[Any]) -> CountedBatch:
    """Collate with `default_collate`, and add the decode counters of this worker."""
    worker = get_worker_info()
    return CountedBatch(
        collated=default_collate(items),
        items=len(items),
        worker=0 if worker is None else worker.id,
        counters=DecodeCounters() + dataset.counters,
    )


def counting_loader(
    dataset: Counting,
    *,
    batch_size: int,
    workers: int,
    sampler: EpochSampler | None = None,
    is_persistent: bool = False,
) -> DataLoader[Any]:
    """Return a stock DataLoader that sends its workers' decode counters with each batch."""
    with ignore_worker_warning():
        return DataLoader(
            dataset,
            batch_size=batch_size,
            sampler=sampler,
            num_workers=workers,
            persistent_workers=is_persistent,
            collate_fn=partial(collate_counted, dataset),
        )


def time_epoch(
    dataset: Counting, *, batch_size: int, workers: int, frames: int, clock: Clock
) -> EpochRepetition:
    """Time one epoch of a stock DataLoader over `dataset`, worker startup included.

    Args:
        dataset: Dataset to deliver in order.
        batch_size: Items in a batch.
        workers: `num_workers`; 0 decodes in this process.
        frames: Frames in the epoch.
        clock: Clock for the timing.

    Raises:
        StageError: a worker failed; with the worker's message.
    """
    loader = counting_loader(dataset, batch_size=batch_size, workers=workers)
    # Workers count from 0, this process from the end of the last epoch.
    earlier = DecodeCounters() if workers else DecodeCounters() + dataset.counters
    by_worker: dict[int, DecodeCounters] = {}
    watch, first = Stopwatch(clock), 0.0
    with closing(iterate_batches(loader)) as batches:
        for batch in islice(batches, len(loader)):
            by_worker[batch.worker] = batch.counters
            first = first or watch.seconds
        seconds, memory = watch.seconds, memory_bytes()
    # The workers have ended, so the CPU time includes theirs.
    counters = sum(by_worker.values(), DecodeCounters()) - earlier
    return EpochRepetition(
        **count_fields(watch.stop(seconds), frames, counters),
        first_batch_seconds=first,
        memory_bytes=memory,
    )


class LoaderDelivery:
    """Delivery of a `FrameLoader`; for one use."""

    at_a_time = 1

    def __init__(
        self, loader: FrameLoader, on_batch: Callable[[Batch], None] = lambda batch: None
    ) -> None:
        """Store the loader; `on_batch` is called with every batch, including the warm-up."""
        self._loader = loader
        self._on_batch = on_batch

    @property
    def warm_up(self) -> int:
        """Frames until the lookahead is filled; grows until a buffer format is chosen."""
        return self._loader.lookahead

    def batches(self) -> Generator[int, None, None]:
        """Yield the number of frames of each batch."""
        with self._loader as loader:
            while True:
                for batch in loader:
                    self._on_batch(batch)
                    yield batch.index.numel()

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters so far, including frames decoded ahead."""
        statistics = self._loader.statistics
        return DecodeCounters(
            frames_decoded=statistics.frames_decoded,
            seeks=statistics.seeks,
            opens=statistics.opens,
            bytes_read=statistics.bytes_read,
        )

    @property
    def held_bytes(self) -> int:
        """Max bytes buffered so far."""
        return self._loader.statistics.most_held_bytes


class DataLoaderDelivery:
    """Delivery of a stock `DataLoader` with decode counters."""

    warm_up = 0

    def __init__(
        self,
        dataset: Counting,
        sampler: EpochSampler,
        *,
        batch_size: int,
        workers: int,
        batch_bytes: int,
    ) -> None:
        """Start nothing yet."""
        # Workers start together, so their batches arrive together; fewer would bias the rate.
        self.at_a_time = workers
        self.held_bytes = workers * _PREFETCHED * batch_bytes
        self._dataset = dataset
        self._sampler = sampler
        self._batch_size = batch_size
        self._by_worker: dict[int, DecodeCounters] = {}

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters of the delivered batches."""
        return sum(self._by_worker.values(), DecodeCounters())

    def batches(self) -> Generator[int, None, None]:
        """Yield the number of frames of each batch.

        Raises:
            StageError: a worker failed; with the worker's message.
        """
        loader = counting_loader(
            self._dataset,
            batch_size=self._batch_size,
            workers=self.at_a_time,
            sampler=self._sampler,
            is_persistent=True,
        )
        while True:
            for batch in iterate_batches(loader):
                self._by_worker[batch.worker] = batch.counters
                yield batch.items


def iterate_batches(loader: DataLoader[Any]) -> Generator[Any, None, None]:
    """Yield the batches of `loader`; closing ends the workers.

    Raises:
        StageError: a worker failed; with the worker's message, without its traceback.
    """
    with ignore_worker_warning():
        batches = iter(loader)
    try:
        yield from batches
    except RuntimeError as error:
        # After torch's heading and the traceback: "headrace.errors.DecodeError: frame 3 of ...".
        message = re.sub(r"^[\w.]+Error: ", "", in_one_line(str(error)))
        raise StageError(f"a DataLoader worker failed: {message}", stage="DataLoader") from error
    finally:
        # The destructor would end them too, but a destructor swallows Ctrl-C.
        shut_down = getattr(batches, "_shutdown_workers", None)  # torch 2.15; None without workers
        if shut_down is not None and not loader.persistent_workers:
            shut_down()


@contextmanager
def ignore_worker_warning() -> Iterator[None]:
    """Silence the warning about more workers than cores."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        yield
