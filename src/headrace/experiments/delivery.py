"""Deliveries: ways to be given batches of random frames, and one turn of each, timed."""

import re
import warnings
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch.utils.data import DataLoader, default_collate, get_worker_info

from headrace.decode.protocol import DecodeCounters
from headrace.errors import StageError
from headrace.experiments.baseline import SeekPerFrame
from headrace.profiling.provenance import Record
from headrace.profiling.usage import cpu_seconds, machine_cpu_seconds
from headrace.runtime.clock import Clock
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.training.epoch_sampler import EpochSampler
from headrace.training.loader import FrameLoader

FILLING: Final = 6
"""Warming up may take so many times as long as measuring, and no longer."""
_PREFETCHED: Final = 2
"""Batches that each worker of a DataLoader makes ahead, by default."""

Counting = SeekPerFrame | FrameDataset | VideoDataset | CameraStreamDataset
"""A map-style dataset that knows what it decoded in this process."""


@dataclass(frozen=True, kw_only=True)
class CountedBatch:
    """What `collate_counted` makes of items."""

    collated: Any
    """The batch as a DataLoader gives it by itself."""
    items: int
    worker: int
    """Its number; 0 too where there are none."""
    counters: DecodeCounters
    """What that worker has decoded so far."""


class Turn(Record):
    """One strategy measured once, whole batches, after it had warmed up."""

    strategy: str
    frames: PositiveInt
    """Delivered while it was measured."""
    seconds: PositiveFloat
    cpu_seconds: NonNegativeFloat
    """Processor time of all processes of this run."""
    others_cpu_seconds: NonNegativeFloat
    """Processor time that anything else took meanwhile on the same cores."""
    decoded: NonNegativeInt
    seeks: NonNegativeInt
    opens: NonNegativeInt
    bytes_read: NonNegativeInt
    """Bytes in the packets that were read; 0 if they are not counted, as by the baseline."""
    held_bytes: NonNegativeInt
    """The most that waited, as frames; of a DataLoader, what its workers make ahead."""
    warm_up_frames: PositiveInt
    """Delivered before, and not counted."""
    warm_up_seconds: NonNegativeFloat
    is_filled: bool
    """False if it had not looked ahead as far as it may; then it was slower than it will be."""


class Delivery(Protocol):
    """Batches without end, and what they cost."""

    warm_up: int
    """Frames to be delivered before it is steady; the first batch never counts."""
    at_a_time: int
    """Batches that get ready together: it is measured over a multiple of them."""

    def batches(self) -> Generator[int, None, None]:
        """Yield the number of frames of each batch; ends all it started when closed."""
        ...

    @property
    def counters(self) -> DecodeCounters:
        """What the batches so far cost."""
        ...

    @property
    def held_bytes(self) -> int:
        """The most that waited so far."""
        ...


def collate_counted(dataset: Counting, items: list[Any]) -> CountedBatch:
    """Collate as a DataLoader does by itself; add what this worker has decoded so far."""
    worker = get_worker_info()
    return CountedBatch(
        collated=default_collate(items),
        items=len(items),
        worker=0 if worker is None else worker.id,
        counters=DecodeCounters() + dataset.counters,
    )


def take_turn(strategy: str, delivery: Delivery, seconds: float, clock: Clock) -> Turn:
    """Let `delivery` warm up, then measure it for `seconds` and to the end of a batch.

    Raises:
        MediaError, StageError: a frame cannot be decoded, or a worker fails.
    """
    with closing(delivery.batches()) as batches:
        began_ns = clock.now_ns()
        warm = next(batches)
        while warm < delivery.warm_up and _since(began_ns, clock) < FILLING * seconds:
            warm += next(batches)
        before, own, all_of_it = delivery.counters, cpu_seconds(), machine_cpu_seconds()
        started_ns = clock.now_ns()
        frames = number = 0
        elapsed = 0.0
        while elapsed < seconds or number % delivery.at_a_time:
            frames += next(batches)
            number += 1
            elapsed = _since(started_ns, clock)
        after = delivery.counters
        own, all_of_it = cpu_seconds() - own, machine_cpu_seconds() - all_of_it
    return Turn(
        strategy=strategy,
        frames=frames,
        seconds=elapsed,
        cpu_seconds=own,
        others_cpu_seconds=max(0.0, all_of_it - own),
        decoded=after.frames_decoded - before.frames_decoded,
        seeks=after.seeks - before.seeks,
        opens=after.opens - before.opens,
        bytes_read=after.bytes_read - before.bytes_read,
        held_bytes=delivery.held_bytes,
        warm_up_frames=warm,
        warm_up_seconds=(started_ns - began_ns) / 1e9,
        is_filled=warm >= delivery.warm_up,
    )


class LoaderDelivery:
    """What a `FrameLoader` delivers, once."""

    at_a_time = 1

    def __init__(self, loader: FrameLoader) -> None:
        self.warm_up = loader.lookahead
        self._loader = loader

    def batches(self) -> Generator[int, None, None]:
        """Yield the number of frames of each batch."""
        with self._loader as loader:
            while True:
                for batch in loader:
                    yield len(batch)

    @property
    def counters(self) -> DecodeCounters:
        """What was decoded so far, also ahead."""
        found = self._loader.statistics
        return DecodeCounters(
            frames_decoded=found.frames_decoded,
            seeks=found.seeks,
            opens=found.opens,
            bytes_read=found.bytes_read,
        )

    @property
    def held_bytes(self) -> int:
        """The most that waited so far."""
        return self._loader.statistics.most_held_bytes


class DataLoaderDelivery:
    """What a stock `DataLoader` delivers. Workers tell with each batch what they have decoded."""

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
        # Workers start together, so their batches come together: fewer would not be a fair sample.
        self.at_a_time = workers
        self.held_bytes = workers * _PREFETCHED * batch_bytes
        self._dataset = dataset
        self._sampler = sampler
        self._batch_size = batch_size
        self._told: dict[int, DecodeCounters] = {}

    @property
    def counters(self) -> DecodeCounters:
        """What the batches that were delivered cost."""
        return sum(self._told.values(), DecodeCounters())

    def batches(self) -> Generator[int, None, None]:
        """Yield the number of frames of each batch.

        Raises:
            StageError: a worker failed; in its own words.
        """
        loader = self._loader()
        while True:
            for batch in _failing_in_words(loader):
                self._told[batch.worker] = batch.counters
                yield batch.items

    def _loader(self) -> DataLoader[Any]:
        with warnings.catch_warnings():
            # More workers than cores is what the user asked for.
            warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
            return DataLoader(
                self._dataset,
                batch_size=self._batch_size,
                sampler=self._sampler,
                num_workers=self.at_a_time,
                prefetch_factor=_PREFETCHED,
                persistent_workers=True,
                collate_fn=partial(collate_counted, self._dataset),
            )


def _failing_in_words(loader: DataLoader[Any]) -> Iterator[CountedBatch]:
    """Yield what `loader` does; what a worker raises comes without its traceback."""
    try:
        yield from loader
    except RuntimeError as error:
        # After torch's heading and the traceback: "headrace.errors.DecodeError: frame 3 of ...".
        said = re.sub(r"^[\w.]+Error: ", "", str(error).strip().splitlines()[-1])
        raise StageError(f"a DataLoader worker failed: {said}", stage="DataLoader") from error


def _since(started_ns: int, clock: Clock) -> float:
    return (clock.now_ns() - started_ns) / 1e9
