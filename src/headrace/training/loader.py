"""FrameLoader: batches of exactly sampled frames, decoded by a plan."""

import os
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

import torch

from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError, MediaError
from headrace.runtime.affinity import available_cores
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sampling.frames import Uniform
from headrace.sampling.sampler import Sampler
from headrace.sizes import parse_bytes
from headrace.training.batch import Batch
from headrace.training.collate import Collate, Transform, check_device
from headrace.training.decoding import JobDecoder
from headrace.training.engine import Engine, Samples
from headrace.training.epochs import Epochs, Position
from headrace.training.iteration import still_running
from headrace.training.open_files import max_open_files
from headrace.training.quarantine import Quarantine, Quarantined
from headrace.training.ranks import agreement, shard_of
from headrace.training.state import check_identity
from headrace.training.statistics import LoaderStatistics
from headrace.training.video_set import VideoSet, population_for
from headrace.training.window import Window
from headrace.video.shape import FrameShape, Layout
from headrace.video.source import Source


@dataclass(kw_only=True)
class _Tally:
    """What the loader itself counts."""

    frames_delivered: int = 0
    samples_substituted: int = 0
    starved_ns: int = 0
    blocked_seconds: float = 0.0
    most_held: int = 0


class FrameLoader:
    """Batches of single frames from many videos: iterate it once for each epoch.

        with FrameLoader(videos, batch_size=128, size=(256, 256)) as loader:
            for epoch in range(10):
                for batch in loader:
                    train(batch.frames)

    Sampling decides which frames a batch holds, and the plan only how they are decoded: batches
    are the same, bit for bit, with any memory budget, look-ahead and number of workers. Steps are
    dealt to ranks so that all ranks together deliver the same in a step, whatever their number.

    Threads start with the first batch, stay for the next epoch, and end with `close`, with the
    `with` block, or with the loader. One thread may use a loader at a time.

    Args:
        videos: Paths of the videos.
        batch_size: Samples in a batch of this rank.
        size: (height, width) of the frames; None keeps that of the videos, if it is one.
        sampling: Which frames, in which order; None means `Uniform()`.
        memory_budget: Bytes, as a number or like "256MiB", for frames that are decoded and
            wait, for two batches, and for codecs, some 11 MB for each worker at 720p (of more
            than a quarter of the budget, the rest comes on top). Open files, in up to a sixteenth
            of it, come on top.
        hold: How decoded frames wait: `rgb` exactly; `yuv420` in half the bytes, so that twice as
            many fit, and delivered with colour at half the resolution.
        lookahead: Requests for single frames that are planned together; None takes as many as
            the budget is expected to hold. 1 is naive random access.
        workers: Decoding threads, each with a decoder of its own; None means one for each core
            this process may use.
        seed: Another one gives other batches; None keeps that of `sampling`, which is 0 by default.
        drop_last: Leave out the last batch of an epoch if it is smaller.
        transform: Called with the frames of each batch, on their device.
        device: Where batches go; None leaves them where they are, on the CPU.
        pin_memory: Copy batches to page-locked memory, so that CUDA copies them in the
            background.
        on_error: What bad media does. With `skip`, a video that cannot be opened is left out,
            and a sample that cannot be decoded is replaced by another draw, by a rule that
            timing plays no part in; both are counted, and listed in `quarantined`. With `conceal`,
            a damaged frame is delivered as FFmpeg shows it, and marked in `Batch.is_concealed`.
            With either, ranks of torch.distributed compare what they left out, so each must open
            its loader.
        quarantine: A file that bad frames are listed in, too; the next run leaves them alone from
            the start, with the same batches.
        rank: This process among `num_replicas`; None asks torch.distributed, if it is
            initialised, and is the only one otherwise.
        num_replicas: Processes that share an epoch; None as for `rank`.
        persistent: Decode ahead into the next epoch while one ends. False ends all threads
            with each epoch: for evaluation.
        stall_seconds: How long a worker may be at one GOP before it is said to hang; None: for
            ever.
        store: Where indexes are kept; None means the user's cache folder.
        clock: What measures waiting.

    Raises:
        ConfigError: an argument is out of range, the budget does not hold three batches, the
            videos or the batches do not suit the sampling, or videos have different sizes and none
            was asked for; or ranks under torch.distributed leave out different videos.
        BackendError: the device is not here.
        OpenError, ScanError: a video cannot be read, and bad media is not to be skipped.
    """

    _pid: int
    _engine: Engine | None = None
    _running: Generator[Samples, None, None] | None = None

    def __init__(
        self,
        videos: Iterable[Source | str | os.PathLike[str]],
        *,
        batch_size: int = 128,
        size: tuple[int, int] | None = (256, 256),
        sampling: Sampler | None = None,
        memory_budget: int | str = "1GiB",
        hold: Layout = "rgb",
        lookahead: int | None = None,
        workers: int | None = None,
        seed: int | None = None,
        drop_last: bool = False,
        transform: Transform | None = None,
        device: torch.device | str | None = None,
        pin_memory: bool = False,
        on_error: OnError = "raise",
        quarantine: str | os.PathLike[str] | None = None,
        rank: int | None = None,
        num_replicas: int | None = None,
        persistent: bool = True,
        stall_seconds: float | None = 120.0,
        store: IndexStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Open the index of every video; 1 ms for one that was seen before. Decodes nothing yet."""
        with agreement(rank is None and on_error != "raise") as opened:
            self._workers = len(available_cores()) if workers is None else workers
            _check(on_error, hold, self._workers, size)
            check_device(device, pin_memory)
            self._videos = VideoSet.open(videos, skip_bad=on_error != "raise", store=store)
            self._size = self._videos.common_size() if size is None else size
            shard = shard_of(rank, num_replicas, drop_last=drop_last)
            use = self._videos.use(seed=seed, batch_size=batch_size, ranks=shard.ranks)
            sampler = self._videos.adapted(Uniform() if sampling is None else sampling, use)
            self._epochs = Epochs(
                sampling=sampler,
                population=population_for(sampler.traits, self._videos),
                quarantine=Quarantine(
                    self._videos, None if quarantine is None else Path(quarantine)
                ),
                seed=sampler.traits.seed_or(seed or 0),
                batch_size=batch_size,
                shard=shard,
                drop_last=drop_last,
            )
            self._num_steps = self._epochs.num_steps()
            budget = parse_bytes(memory_budget)
            shape = FrameShape(size=self._size, layout=hold)
            self._decoder = JobDecoder(
                self._videos, shape, max_open_files(budget), conceals=on_error == "conceal"
            )
            self._window = self._widest_window(budget, lookahead)
            self._skip_bad, self._persistent = on_error != "raise", persistent
            self._stall_seconds = stall_seconds
            self._collate = Collate(self._videos, transform, device, pin_memory=pin_memory)
            self._clock, self._pid = clock, os.getpid()
            self._start = self._at = self._next = Position()
            self._tally = _Tally()
            opened.checksum, opened.left_out = self._identity()["checksum"], len(self.left_out)

    def __len__(self) -> int:
        """How many batches an epoch has; the same for every rank."""
        return self._num_steps

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of one epoch: of the one after that which was last iterated to its end.

        After `load_state_dict` it yields what is left of that epoch. Left early, an epoch begins
        again next time.

        Raises:
            MediaError: a frame is bad, and bad ones are not to be skipped. Names file and pts.
            StageError: a worker hangs; names it and its file.
            ConfigError: the loader was closed, or iterated anew, while this iteration went on.
        """
        start = self._at = self._start
        self._start = Position(epoch=start.epoch)
        running = self._run_from(start)
        is_last = False
        while not is_last:
            samples = self._wait_for(running)
            self._next = samples.step.after
            batch = self._batch(samples)
            self._at = samples.step.after
            is_last = self._at.epoch != start.epoch
            if is_last:
                self._start = self._at
                if not self._persistent:
                    self.close()
            yield batch

    @property
    def lookahead(self) -> int:
        """Requests for single frames that are planned together."""
        return self._window.lookahead

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration yields, or what is left of it."""
        return self._start.epoch

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the one that is iterated next; a place in it that was loaded is kept."""
        if epoch != self._start.epoch:
            self._start = self._at = Position(epoch=epoch)

    def state_dict(self) -> dict[str, int]:
        """Return where training stands after the last batch that was yielded: a few integers.

        It may be loaded with another number of workers or ranks, another budget, batch size and
        look-ahead.
        """
        return {**self._identity(), "epoch": self._at.epoch, "slot": self._at.slot}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on after the batch that `state` was taken at.

        Raises:
            ConfigError: the state is of another seed, sampling or set of videos.
        """
        needed = "videos in the same order, sampling and seed"
        check_identity(state, self._identity(), needed)
        at = Position.of(state)
        is_over = self._epochs.num_steps(at.slot) == 0  # less than a batch is left, and dropped
        self._start = self._at = Position(epoch=at.epoch + 1) if is_over else at

    @property
    def statistics(self) -> LoaderStatistics:
        """What the loader did so far."""
        counters, tally = self._decoder.counters, self._tally
        frame_bytes = self._decoder.buffers.frame_bytes
        room = None if self._engine is None else self._engine.room
        return LoaderStatistics(
            frames_delivered=tally.frames_delivered,
            frames_decoded=counters.frames_decoded,
            samples_substituted=tally.samples_substituted,
            videos_left_out=len(self._videos.left_out),
            frames_quarantined=len(self._epochs.quarantine),
            seeks=counters.seeks,
            opens=counters.opens,
            bytes_read=counters.bytes_read,
            held_bytes=frame_bytes * (room.taken if room else 0),
            most_held_bytes=frame_bytes * max(tally.most_held, room.most_taken if room else 0),
            starved_seconds=tally.starved_ns / 1e9,
            blocked_seconds=tally.blocked_seconds + (room.blocked_seconds if room else 0.0),
        )

    @property
    def left_out(self) -> tuple[MediaError, ...]:
        """Why videos that cannot be read are left out; each error names its file."""
        return self._videos.left_out

    @property
    def quarantined(self) -> tuple[Quarantined, ...]:
        """What is known to be bad and left alone: path, place of the frame (None: all), and why."""
        return self._epochs.quarantine.entries

    def close(self) -> None:
        """End all threads and close all files. The loader may be iterated again."""
        self._leave_inherited()
        if self._running is not None:
            self._running.close()
            self._running = None
        if self._engine is not None:
            room, self._engine = self._engine.room, None
            self._tally.blocked_seconds += room.blocked_seconds
            self._tally.most_held = max(self._tally.most_held, room.most_taken)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _widest_window(self, memory_budget: int, lookahead: int | None) -> Window:
        epochs, traits = self._epochs, self._epochs.sampling.traits
        clip_frames = traits.num_frames or 1
        if lookahead is not None and lookahead >= 1:
            lookahead = max(lookahead, clip_frames)  # those of a clip are planned together
        return Window.of(
            self._videos.population.gop_lengths,
            memory_budget=memory_budget,
            frame_bytes=self._size[0] * self._size[1] * 3,
            held_bytes=self._decoder.buffers.frame_bytes,
            codec_bytes=self._workers * self._videos.codec_bytes,
            batch_frames=clip_frames * epochs.batch_size,
            each_once=not traits.has_replacement,
            lookahead=lookahead,
        )

    def _run_from(self, start: Position) -> Generator[Samples, None, None]:
        """Return the samples from `start` on: of the engine that runs, if it stands there."""
        self._leave_inherited()
        if self._running is None or self._next != start:
            self.close()
            last = None if self._persistent else start.epoch + 1
            self._next = start
            self._engine = Engine(
                self._epochs,
                self._decoder,
                self._window,
                workers=self._workers,
                skip_bad=self._skip_bad,
                stall_seconds=self._stall_seconds,
                clock=self._clock,
            )
            self._running = self._engine.run(self._epochs.steps(start, last))
        return self._running

    def _leave_inherited(self) -> None:
        """Begin anew in a process that was forked from the loader's: its threads are not here."""
        if self._pid != os.getpid():
            # Kept: freeing them would wait for those threads, and move in the parent's files.
            self._inherited = self._running, self._engine, self._decoder
            self._running = self._engine = None
            self._pid = os.getpid()
            old = self._decoder
            self._decoder = JobDecoder(self._videos, old.shape, old.max_open, conceals=old.conceals)

    def _wait_for(self, running: Generator[Samples, None, None]) -> Samples:
        started_ns = self._clock.now_ns()
        try:
            samples = next(running, None)
        except BaseException:
            self.close()
            raise
        finally:
            self._tally.starved_ns += self._clock.now_ns() - started_ns
        return still_running(samples)

    def _batch(self, samples: Samples) -> Batch:
        step = samples.step
        self._tally.frames_delivered += samples.frames.size
        if len(self._epochs.quarantine):
            differs = samples.frames != self._epochs.order(step.epoch).at(step.slots)
            self._tally.samples_substituted += int(differs.reshape(len(differs), -1).any(1).sum())
        return self._collate.batch(samples.frames, samples.pixels, samples.is_concealed)

    def _identity(self) -> dict[str, int]:
        """What a state belongs to. Sampling and seed are in the checksum too."""
        sampling = self._epochs.sampling.traits.identity.encode()
        return {
            "seed": self._epochs.seed,
            "videos": len(self._videos.indexes),
            "frames": self._videos.population.num_frames,
            "checksum": zlib.crc32(sampling, self._videos.checksum),
        }


def _check(on_error: OnError, hold: Layout, workers: int, size: tuple[int, int] | None) -> None:
    if hold not in get_args(Layout):
        raise ConfigError(f"hold must be one of {', '.join(get_args(Layout))}, got {hold!r}")
    check_on_error(on_error)
    if workers < 1:
        raise ConfigError(f"workers must be >= 1, got {workers}")
    FrameShape(size=size)  # refuses impossible sizes
