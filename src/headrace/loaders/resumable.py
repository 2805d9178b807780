"""ResumableLoader: iteration, resuming, closing and statistics of every loader."""

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar

from headrace.cache.spill_store import SpillState
from headrace.decode.gpu.gpu_decoding import DeviceCounters
from headrace.decode.packing import PackedFrames
from headrace.decode.protocol import DecodeCounters
from headrace.errors import CallError, ConfigError
from headrace.loaders.epochs import STATE_VERSION, Position, agreement, check_identity, shard_of
from headrace.loaders.loader_options import LoaderOptions
from headrace.runtime.synchronization import CapacityLimiter
from headrace.sampling.sampler import Shard
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True)
class DeliveryStatistics:
    """Counts of any loader since its creation, over all epochs; exact."""

    frames_delivered: int
    """Frames delivered to the training loop: every frame of a clip, and one frame per camera of a
    moment. Empty slots are not counted."""
    frames_decoded: int
    """Frames that codecs returned."""
    seeks: int
    """Seeks inside a file."""
    opens: int
    """Opened files, including reopened ones."""
    bytes_read: int
    """Bytes of packets read."""
    starved_seconds: float
    """Seconds that the training loop waited for batches. Near the duration of the loop: decoding is
    the bottleneck; look further ahead (more memory), use more cores, or shorter GOPs."""
    blocked_seconds: float
    """Seconds that decoding waited because batches were not taken. Near the duration of the loop:
    the model is the bottleneck, and faster decoding gains nothing."""
    decoded_by: DeviceCounters | None = None
    """Counts of the CPU and the GPU, and the files that only the CPU decoded, with reasons; None:
    decoding is not `auto`."""

    @property
    def amplification(self) -> float:
        """Frames decoded ÷ frames delivered. Near 1: as cheap as reading in order. Below 1: some
        frames are delivered twice from one decode. Near half a GOP: naive random access."""
        return self.frames_decoded / self.frames_delivered if self.frames_delivered else 0.0


@dataclass(frozen=True, kw_only=True)
class LoaderStatistics(DeliveryStatistics):
    """Counts of a loader of frames or clips."""

    samples_substituted: int
    """Bad samples that were replaced by another draw."""
    videos_skipped: int
    """Videos that cannot be read."""
    frames_quarantined: int
    """Known bad frames, including all frames of bad videos."""
    held_bytes: int
    """Bytes of decoded frames that wait for their batch, and of frames being decoded."""
    most_held_bytes: int
    """Maximum of `held_bytes`. Near the budget: with more memory, fewer frames are decoded."""
    packed: PackedFrames | None = None
    """Packing of waiting frames; None while they wait as pixels."""
    spill: SpillState | None = None
    """Store on the disk; None without `spill`."""


BatchOf = TypeVar("BatchOf")

Step = TypeVar("Step")
"""Output of an engine for one step, from which a batch is made."""


class DecodingEngine(Protocol):
    """Counters of an engine."""

    room: CapacityLimiter

    @property
    def counters(self) -> DecodeCounters:
        """Decode counters, over all threads."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Running(Generic[Step]):
    """A running engine. Its threads end when `steps` is closed or garbage-collected."""

    engine: DecodingEngine
    steps: Generator[Step, None, None]


@dataclass(frozen=True, kw_only=True)
class DecodeTotals:
    """Counters over all engines of a loader."""

    decode_counters: DecodeCounters = field(default_factory=DecodeCounters)
    blocked_seconds: float = 0.0
    max_taken: int = 0
    """Max permits of a `CapacityLimiter` in use at the same time."""

    def with_engine(self, engine: DecodingEngine) -> "DecodeTotals":
        """Return the totals with one more engine."""
        return DecodeTotals(
            decode_counters=self.decode_counters + engine.counters,
            blocked_seconds=self.blocked_seconds + engine.room.blocked_seconds,
            max_taken=max(self.max_taken, engine.room.max_in_use),
        )


class ResumableLoader(ABC, Generic[Step, BatchOf]):
    """Loader of batches, epoch after epoch, which can resume after any batch.

    Threads start with the first batch of an iteration and end with `close`, with the `with` block,
    or with the loader. Only one thread may use a loader at a time. A loader cannot be pickled; a
    forked process may iterate its copy, which starts its own threads.
    """

    _OFFSET_KEY: ClassVar[str]
    """Key of the offset in a state."""
    _NEEDED: ClassVar[str]
    """Arguments that must be the same to resume, for a message."""
    _DATASETS: ClassVar[str] = "FrameDataset or VideoDataset"
    """Datasets to use with a stock DataLoader instead of this loader."""

    def __init__(self, options: LoaderOptions) -> None:
        """Open the media, and check that all ranks opened the same. Starts no thread."""
        self._options = options
        self._pid = os.getpid()
        self._running: Running[Step] | None = None
        self._totals_before = DecodeTotals()
        self._starved_ns = 0
        self._iterations = 0
        self._start = self._at = self._next = Position()
        with agreement(options.rank is None and options.skips_bad) as opened:
            options.check()
            self._scheduler = options.scheduler()
            self._collate = options.collate()
            shard = shard_of(options.rank, options.num_replicas, drop_last=options.drop_last)
            opened.skipped = self._open(shard)
            opened.checksum = self._identity()["checksum"]

    @abstractmethod
    def _open(self, shard: Shard) -> int:
        """Open the media that this rank samples from; return the number of skipped files."""

    @abstractmethod
    def _begin(self, start: Position) -> Running[Step]:
        """Start a new engine at a position."""

    @abstractmethod
    def _after(self, step: Step) -> Position:
        """Return the position after a step."""

    @abstractmethod
    def _batch(self, step: Step) -> BatchOf:
        """Return the batch of a step, and count its frames."""

    @abstractmethod
    def _steps_left(self, position: Position) -> int:
        """Return the number of steps from a position to the end of its epoch; <= 0: none."""

    @abstractmethod
    def _identity(self) -> dict[str, int]:
        """Return the state entries that must match when a loader resumes."""

    @property
    @abstractmethod
    def _is_random(self) -> bool:
        """Whether the order differs between epochs."""

    def __getitem__(self, number: object) -> NoReturn:
        """Raise: a DataLoader around this loader would request items by index.

        Raises:
            CallError: always, with the fix.
        """
        name = type(self).__name__
        raise CallError(
            f"{name} yields batches in order and has no item {number!r:.40}: iterate it without a "
            f"DataLoader, `for batch in loader`; for a DataLoader use {self._DATASETS}"
        )

    def __len__(self) -> int:
        """Number of batches of the next epoch; the same for every rank."""
        return self._steps_left(Position(epoch=self._start.epoch))

    def __iter__(self) -> Iterator[BatchOf]:
        """Yield the batches of one epoch: the epoch after the last complete one.

        After `load_state_dict`: the rest of the state's epoch. After an iteration that ended early:
        the rest of its epoch, or the whole epoch, by `on_early_exit`.

        Raises:
            MediaError: a frame is bad, and `on_error` is "raise"; names file and pts.
            StageError: a thread hangs; names the thread and its file.
            ConfigError: the loader was closed, or another iteration started, meanwhile.
        """
        start = self._at = self._start
        choice = self._options.on_early_exit
        restarts = not self._is_random if choice is None else choice == "restart"
        if restarts:
            self._start = Position(epoch=start.epoch)
        running = self._run_from(start)
        self._iterations += 1
        iteration, is_last = self._iterations, False
        while not is_last:
            step = self._wait_for(running, iteration)
            self._next = after = self._after(step)
            batch = self._batch(step)
            self._at = after
            is_last = after.epoch != start.epoch
            if is_last or not restarts:
                self._start = after
            if is_last and not self._options.prefetch_next_epoch:
                self.close()
            yield batch

    @property
    def epoch(self) -> int:
        """Epoch of the next iteration."""
        return self._start.epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration; a loaded position in that epoch is kept."""
        check_integers(0, epoch=epoch)
        if epoch != self._start.epoch:
            self._start = self._at = Position(epoch=epoch)

    def state_dict(self) -> dict[str, int]:
        """Return the position after the last yielded batch: a few integers.

        It may be loaded with another number of threads, budget and lookahead.
        """
        offset = {"epoch": self._at.epoch, self._OFFSET_KEY: self._at.offset}
        return {"version": STATE_VERSION, **self._identity(), **offset}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume after the batch at which `state` was taken.

        Raises:
            ConfigError: the state is of another loader; names the differences.
        """
        check_identity(state, self._identity(), self._NEEDED)
        position = Position.from_state(state, self._OFFSET_KEY)
        is_over = self._steps_left(position) <= 0  # drop_last drops the rest
        self._start = self._at = Position(epoch=position.epoch + 1) if is_over else position

    def close(self) -> None:
        """End all threads and close all files. The loader may be iterated again."""
        self._leave_inherited()
        running, self._running = self._running, None
        if running is not None:
            running.steps.close()
            self._totals_before = self._totals_before.with_engine(running.engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "a loader has threads and open files, and cannot be copied or pickled; iterate it "
            "without a DataLoader, or create one in the other process, and load state_dict() there "
            "to continue"
        )

    @property
    def _totals(self) -> DecodeTotals:
        before, running = self._totals_before, self._running
        return before if running is None else before.with_engine(running.engine)

    @property
    def _num_threads(self) -> int:
        """Threads of an engine; with `auto`, including threads that wait for the GPU."""
        scheduler = self._scheduler
        return self._options.thread_count() if scheduler is None else scheduler.threads

    def _decode_statistics(self) -> dict[str, Any]:
        """Return the fields of `DeliveryStatistics` except `frames_delivered`."""
        totals = self._totals
        counters = totals.decode_counters
        return {
            "frames_decoded": counters.frames_decoded,
            "seeks": counters.seeks,
            "opens": counters.opens,
            "bytes_read": counters.bytes_read,
            "starved_seconds": self._starved_ns / 1e9,
            "blocked_seconds": totals.blocked_seconds,
            "decoded_by": None if self._scheduler is None else self._scheduler.decoded_by,
        }

    def _run_from(self, start: Position) -> Running[Step]:
        """Return a running engine whose next step is at `start`: the current one, or a new one."""
        self._leave_inherited()
        if self._running is None or self._next != start:
            self.close()
            self._next = start
            self._running = self._begin(start)
        return self._running

    def _leave_inherited(self) -> None:
        """Drop an engine inherited by a fork: its threads run in the parent."""
        if self._pid != os.getpid():
            # Kept alive: freeing it would wait for the parent's threads, and move the offsets of
            # its files.
            self._inherited = self._running
            self._running = None
            self._pid = os.getpid()

    def _wait_for(self, running: Running[Step], iteration: int) -> Step:
        self._leave_inherited()
        started_ns = self._options.clock.now_ns()
        step: Step | None = None
        try:
            if self._running is running and iteration == self._iterations:
                step = next(running.steps, None)
        except BaseException:
            self.close()
            raise
        finally:
            self._starved_ns += self._options.clock.now_ns() - started_ns
        if step is None:
            raise ConfigError(
                "the loader was closed, or another iteration started, during this iteration; use "
                "one loader per iteration"
            )
        return step
