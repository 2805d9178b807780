"""How many workers a stock DataLoader needs: an epoch of clips, timed for each number of them."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch.utils.data import DataLoader

from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeCounters
from headrace.errors import ConfigError
from headrace.experiments.delivery import CountedBatch, collate_counted
from headrace.experiments.progress import OnProgress, unseen
from headrace.experiments.record import ExperimentRecord
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Record
from headrace.profiling.usage import cpu_seconds, memory_bytes
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sampling.boundary import Boundary
from headrace.training.datasets import VideoDataset

_BATCHES_PER_WORKER = 4
"""An epoch in which each worker has fewer tells how long they take to start."""


@dataclass(frozen=True, kw_only=True)
class WorkersConfig:
    """What is measured."""

    videos: tuple[str, ...]
    """Paths."""
    workers: tuple[int, ...] = (0, 1, 2, 4, 8)
    """Values of `num_workers`; 0 decodes in the process that asks."""
    batch_size: int = 4
    """Clips in a batch."""
    clip_len: int = 16
    stride: int = 2
    size: tuple[int, int] = (256, 256)
    """(height, width) of the frames."""
    boundary: Boundary = "error"
    """What happens where a video is shorter than a clip."""
    clips_per_video: int | None = None
    """None takes as many as give each worker 4 batches, so that it is not start-up that counts."""
    repeats: int = 3
    """Epochs for each number of workers."""

    def __post_init__(self) -> None:
        if not self.workers or min(self.workers) < 0:
            raise ConfigError(f"workers must be numbers from 0 up, got {self.workers}")
        for name in ("batch_size", "repeats", "clips_per_video"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be >= 1, got {value}")

    @property
    def clips(self) -> int:
        """Clips in an epoch."""
        if self.clips_per_video is not None:
            return self.clips_per_video * len(self.videos)
        enough = _BATCHES_PER_WORKER * max(self.workers) * self.batch_size
        return max(1, math.ceil(enough / len(self.videos))) * len(self.videos)


class Epoch(Record):
    """One epoch, from asking for the first batch until the last was there."""

    workers: NonNegativeInt
    seconds: NonNegativeFloat
    """Wall time, that of starting the workers included."""
    first_batch_seconds: NonNegativeFloat
    """Until the first batch: workers start, and decode it."""
    cpu_seconds: NonNegativeFloat
    """Processor time of all processes, until the workers have ended."""
    memory_bytes: NonNegativeInt
    """Of all processes when the last batch was there; what they share is counted once."""
    decoded: NonNegativeInt
    """Frames decoded in all processes; so are the rest."""
    seeks: NonNegativeInt
    opens: NonNegativeInt
    bytes_read: NonNegativeInt
    """Bytes in the packets that were read."""


class WorkersRecord(ExperimentRecord):
    """What was measured."""

    videos: PositiveInt
    clips: PositiveInt
    """In an epoch."""
    frames: PositiveInt
    """In an epoch."""
    epochs: tuple[Epoch, ...]
    """As they were timed; numbers of workers take turns, so that none has all the luck."""


def measure_workers(
    config: WorkersConfig,
    *,
    command: Sequence[str] = (),
    on_progress: OnProgress = unseen,
    store: IndexStore | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> WorkersRecord:
    """Time epochs of the same clips, `config.repeats` for each number of workers.

    One epoch goes before them without being timed, in this process: it brings the files into
    memory, and bad media comes to light in it. Nothing else should run on the machine.

    Args:
        config: What is measured.
        command: The command line it came from, if any.
        on_progress: Called before each turn.
        store: Where indexes are kept; None means the user's cache folder.
        clock: What times.

    Raises:
        ConfigError: there is no video, or one is shorter than a clip.
        MediaError: a video cannot be read.
    """
    if not config.videos:
        raise ConfigError("at least one video is needed, got none")
    times = config.clips // len(config.videos)
    configuration = {**asdict(config), "videos": len(config.videos), "clips_per_video": times}
    made = provenance(configuration, command, clock)
    turns = [0] + list(config.workers) * config.repeats
    epochs = []
    with VideoDataset(
        config.videos * times,
        config.clip_len,
        config.stride,
        size=config.size,
        boundary=config.boundary,
        store=store,
    ) as clips:
        for number, workers in enumerate(turns):
            on_progress(f"{workers} workers", number, len(turns))
            epochs.append(_epoch(clips, config.batch_size, workers, clock))
            clips.close()
    return WorkersRecord(
        provenance=made,
        videos=len(config.videos),
        clips=len(clips),
        frames=len(clips) * config.clip_len,
        epochs=tuple(epochs[1:]),
    )


def _epoch(clips: VideoDataset, batch_size: int, workers: int, clock: Clock) -> Epoch:
    with warnings.catch_warnings():
        # More workers than cores is part of the question.
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        loader = DataLoader(
            clips,
            batch_size=batch_size,
            num_workers=workers,
            collate_fn=partial(collate_counted, clips),
        )
        told: dict[int, DecodeCounters] = {}
        # Workers begin to count at 0, this process where the last epoch ended.
        earlier = DecodeCounters() if workers else DecodeCounters() + clips.counters
        busy_before = cpu_seconds()
        started_ns = first_ns = clock.now_ns()
        batches: Iterator[CountedBatch] = iter(loader)
        for number in range(len(loader)):
            batch = next(batches)
            told[batch.worker] = batch.counters
            if number == 0:
                first_ns = clock.now_ns()
        ended_ns = clock.now_ns()
    memory = memory_bytes()
    spent = sum(told.values(), DecodeCounters()) - earlier
    del batches  # ends the workers and waits for them, so that their time counts
    return Epoch(
        workers=workers,
        seconds=(ended_ns - started_ns) / 1e9,
        first_batch_seconds=(first_ns - started_ns) / 1e9,
        cpu_seconds=cpu_seconds() - busy_before,
        memory_bytes=memory,
        decoded=spent.frames_decoded,
        seeks=spent.seeks,
        opens=spent.opens,
        bytes_read=spent.bytes_read,
    )
