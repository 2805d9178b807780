"""Every frame of many videos, in order, decoded on all cores."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from typing import Any, cast

from headrace.argument_names import answers_names
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.device_scheduler import DeviceCounters, DeviceScheduler, device_of
from headrace.decode.frame_outputs import Array, device_memory, finish_work
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_any_decoder, open_index
from headrace.decode.protocol import DecodeCounters, Decoder, OnError, check_on_error
from headrace.errors import ConfigError, MediaError
from headrace.extraction.frame_batches import (
    FilledPart,
    ReadBudget,
    ReadingTask,
    assembled,
    batches_of_one_stretch,
    batches_over_stretches,
    fill,
    fill_by_size,
)
from headrace.loaders.video_set import warn_skipped
from headrace.planning.gop_ranges import split_video
from headrace.runtime.buffer_pool import BatchBufferPool
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.imap import imap
from headrace.runtime.tracing import NO_OP_TRACER, Tracer
from headrace.units import check_integers
from headrace.video.frame_format import Fit, FrameFormat, Interpolation
from headrace.video.frame_loss import FrameLoss
from headrace.video.frames import FrameBatch
from headrace.video.source import Source, Stream, check_is_list
from headrace.video.stream_index import StreamIndex

_BATCHES_KEPT = 64
"""Batches at a time whose memory is used again: clearing new memory costs as much as converting a
frame of 720p. It goes back to the system with the reader, and with the last batch somebody has."""
_SHORT_STRETCH = 32
"""Frames below which a stretch is not worth the seek it costs. Longer ones would have more frames
wait for their turn, in memory that the system must clear first."""

Video = StreamIndex | Source | str | os.PathLike[str]
"""A video, or what is known of it."""


@answers_names
class FrameReader:
    """Reads every frame of its videos, in order: iterate it for FrameBatch after FrameBatch.

    A batch holds consecutive frames of one video and one size: up to 32 of them; or, if
    `batch_size` is given, exactly so many, but for the last of each video and for frames that are
    damaged. Different stretches are decoded at the same time, one thread and one decoder each;
    they come out in the order of the videos whatever finishes first.

    Frames are arrays on the CPU, wherever they were decoded, unless `decoding` keeps them on its
    device: then they are tensors there, and the memory budget is of that device. They are whole
    when they come, for any CUDA stream; one that is not the default names itself to PyTorch as a
    user of the frames (`record_stream`). No GPU has run this yet;
    `DecoderConfig(keeps_on_device=True)` goes the same way on the CPU.
    """

    losses: list[FrameLoss]
    """What was left out or concealed so far, in order; whole videos as soon as they are known to be
    bad."""
    threads = 0
    """Threads that decode, once it is iterated."""

    def __init__(
        self,
        videos: Sequence[Video],
        *,
        size: tuple[int, int] | None = None,
        fit: Fit = "stretch",
        interpolation: Interpolation = "area",
        stride: int = 1,
        batch_size: int | None = None,
        max_batches: int | None = None,
        workers: int | None = None,
        memory_budget: int = 1 << 30,
        on_error: OnError = "raise",
        decoding: DecoderConfig = ON_CPU,
        index_store: IndexStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
        marks: Tracer = NO_OP_TRACER,
    ) -> None:
        """Plan the reading; nothing is opened yet.

        Args:
            videos: What to read, in this order; a StreamIndex is not looked up again.
            size: (height, width) of the frames; None keeps each video's own.
            fit: Where `size` has another aspect ratio: `stretch`, `cover` or `contain`.
            interpolation: `area`, or torchvision's antialiased `bilinear` or `bicubic`.
            stride: 1 means every frame.
            batch_size: Frames in a batch. All of one video then have one size: that of its first
                frame, unless `size` is given. None begins a new batch where the size changes.
            max_batches: Where to stop, counting batches that damage leaves empty; it needs a
                `batch_size`. None means at the end of the last video.
            workers: Decoding threads; None means one for each core this process may use, or as
                many as there is memory for.
            memory_budget: Bytes that decoded frames may hold while they wait; a batch comes on top.
            on_error: Whether bad media ends the reading, behind the good frames before it; is left
                out and listed in `losses`; or, with `conceal`, comes as FFmpeg shows it, marked and
                listed.
            decoding: What decodes, and where.
            index_store: Where indexes are kept; None means the user's cache folder.
            clock: What measures how long decoding takes.
            marks: Hear of each part of a batch, as planned by `batch_size`, that is decoded.

        Raises:
            ConfigError: an argument is out of range.
        """
        check_on_error(on_error)
        check_integers(
            1, stride=stride, batch_size=batch_size, max_batches=max_batches, workers=workers
        )
        if max_batches is not None and batch_size is None:
            raise ConfigError(f"max_batches={max_batches} needs a batch_size; give both")
        check_is_list(videos)
        self._videos = [v if isinstance(v, StreamIndex) else Source.of(v) for v in videos]
        self._shape = FrameFormat(size=size, fit=fit, interpolation=interpolation)
        self._stride, self._batch_size, self._max_batches = stride, batch_size, max_batches
        self._workers, self._memory_budget = workers, memory_budget
        self._on_error: OnError = on_error
        self._decoding, self._store = DecoderConfig.resolve(decoding), index_store or IndexStore()
        is_auto = self._decoding.is_auto
        self._scheduler = DeviceScheduler(cores=workers, clock=clock) if is_auto else None
        self._clock, self._marks, self._costs, self.losses = clock, marks, [DecodeCounters()], []

    @property
    def counters(self) -> DecodeCounters:
        """What decoding cost so far, over all threads."""
        return sum(self._costs, DecodeCounters())

    @property
    def decoded_by(self) -> DeviceCounters | None:
        """What the CPU and the GPU did so far; None unless decoding is `auto`."""
        return None if self._scheduler is None else self._scheduler.decoded_by

    @property
    def frames_planned(self) -> int:
        """Frames that will be delivered, damage aside. Looks up the index of every video."""
        return sum(num_frames for _, _, num_frames in self._wanted(self._indexes([])))

    def __iter__(self) -> Generator[FrameBatch, None, None]:
        """Yield the frames of every video, in order; warn at the end of videos left out.

        Raises:
            MediaError: at the place of bad media, when `on_error` is `raise`.
            ConfigError: the memory budget is too small for a batch, or for one frame of each
                worker.
            BackendError: a video cannot be decoded that way, or the device has no memory left.
        """
        begun, indexes = len(self.losses), self._indexes(self.losses)
        first = next(indexes, None)
        if first is not None:
            yield from self._read(first, indexes)
        videos = [loss for loss in self.losses[begun:] if loss.index is None]
        warn_skipped(videos, f"{len(self._videos)} videos", "losses")

    def _read(
        self, first: tuple[int, StreamIndex], indexes: Iterator[tuple[int, StreamIndex]]
    ) -> Generator[FrameBatch, None, None]:
        room = self._room(first[1])
        self.threads = room.workers
        parts = imap(
            self._worker,
            self._plan(chain([first], indexes), room),
            workers=room.workers,
            capacity=room.jobs,
            name="decode",
        )
        self._buffers = BatchBufferPool(_BATCHES_KEPT)
        # Also early or at an error: threads are joined.
        with closing(self._buffers), closing(parts):
            yield from self._assemble(parts)

    def _assemble(self, parts: Iterator[FilledPart]) -> Iterator[FrameBatch]:
        waiting: list[FilledPart] = []
        for part in parts:
            waiting.append(part)
            error, stop = part.reading.error, None
            if self._on_error == "raise" and error is not None and part.reading.lost:
                stop = part.reading.lost[0]
            else:
                self.losses += part.reading.losses()
            if part.is_last or stop is not None:
                batch = assembled(waiting, stop=stop)
                waiting = []
                if batch is not None:
                    yield batch
            if stop is not None and error is not None:
                raise error

    def _indexes(self, losses: list[FrameLoss]) -> Iterator[tuple[int, StreamIndex]]:
        for number, video in enumerate(self._videos):
            try:
                if isinstance(video, Source):
                    video = open_index(video, self._store)
                yield number, video
            except MediaError as error:
                if self._on_error == "raise":
                    raise
                losses.append(FrameLoss(source=error.source, index=None, cause=str(error)))

    def _wanted(
        self, indexes: Iterator[tuple[int, StreamIndex]]
    ) -> Iterator[tuple[int, StreamIndex, int]]:
        """Yield (video, index, number of frames to read)."""
        batches = self._max_batches
        for video, index in indexes:
            num_frames = len(range(0, len(index), self._stride))
            if batches is not None and self._batch_size is not None:
                num_frames = min(num_frames, batches * self._batch_size)
                batches -= -(-num_frames // self._batch_size)
            yield video, index, num_frames
            if batches == 0:
                return

    def _plan(
        self, indexes: Iterator[tuple[int, StreamIndex]], room: ReadBudget
    ) -> Iterator[ReadingTask]:
        """Keep a video on one thread while there are others to go round, and memory for it."""
        batches = 0
        for video, index, num_frames in self._wanted(indexes):
            share = num_frames if len(self._videos) >= room.workers else num_frames // 8
            at_least = max(_SHORT_STRETCH, min(share, room.job_frames * room.jobs))
            stretches = split_video(
                video, index, stride=self._stride, at_least=at_least, max_frames=num_frames
            )
            if self._batch_size is None:
                yield from batches_of_one_stretch(stretches, batch_size=room.job_frames)
            else:
                yield from batches_over_stretches(
                    stretches,
                    num_frames,
                    batch_size=self._batch_size,
                    most=room.job_frames,
                    first_batch=batches,
                    new=partial(self._memory, self._shape_of(index)),
                )
                batches += -(-num_frames // self._batch_size)

    def _room(self, index: StreamIndex) -> ReadBudget:
        return ReadBudget.of(
            self._shape.output_size(index.info.upright_size),
            batch_size=self._batch_size,
            workers=self._workers,
            budget=self._memory_budget,
        )

    def _shape_of(self, index: StreamIndex) -> FrameFormat:
        """Return what frames of a video are made into: all of one size, where batches are exact."""
        is_free = self._batch_size is None or self._shape.size is not None
        return self._shape if is_free else FrameFormat(size=index.info.upright_size)

    @contextmanager
    def _worker(
        self,
    ) -> Iterator[Callable[[ReadingTask], Iterator[FilledPart]]]:
        """Keep one decoder open: the next stretch is likely of the same video."""
        current: Decoder[Array] | None = None

        def run(task: ReadingTask) -> Iterator[FilledPart]:
            nonlocal current
            index = task.stretch.index
            if current is None or current.index is not index:
                if current is not None:
                    current.close()
                current = open_any_decoder(
                    index, self._shape_of(index), self._decoding, scheduler=self._scheduler
                )
                self._costs.append(current.counters)
            yield from self._decode(current, task)

        try:
            yield run
        finally:
            if current is not None:
                current.close()

    def _memory(self, shape: FrameFormat, num_frames: int) -> Array:
        """Return memory for a batch."""
        assert shape.size is not None
        return self._take((num_frames, *shape.array_shape(shape.size)))

    def _take(self, shape: tuple[int, ...]) -> Array:
        """Return memory of any content; arrays are used again when nobody has them any more."""
        if self._decoding.keeps_on_device:
            there: Any = device_memory(shape, device_of(self._decoding))
            return cast(Array, there)
        return self._buffers.acquire(shape)

    def _finish(self) -> None:
        """Wait until what this thread asked of a device is done, so that it is timed."""
        if self._decoding.keeps_on_device:
            finish_work(device_of(self._decoding))

    def _decode(self, decoder: Decoder[Array], task: ReadingTask) -> Iterator[FilledPart]:
        conceals = self._on_error == "conceal"
        video, number = task.stretch.video, -1
        batch: Array | None = None
        for part in task.parts:
            if self._batch_size is None:
                yield from fill_by_size(
                    decoder,
                    video,
                    part.wanted,
                    take=self._take,
                    conceals=conceals,
                    clock=self._clock,
                    finish=self._finish,
                )
                continue
            if batch is None or part.batch != number:
                number, shared = part.batch, task.shared.get(part.batch)
                new = partial(self._memory, decoder.shape, part.batch_frames)
                batch = new() if shared is None else shared
            with self._marks.range("decode", part.batch):
                filled = fill(
                    decoder,
                    video,
                    part,
                    batch,
                    conceals=conceals,
                    clock=self._clock,
                    finish=self._finish,
                )
            yield filled


@answers_names
def read_frames(
    videos: Sequence[Source | str | os.PathLike[str]],
    *,
    size: tuple[int, int] | None = None,
    fit: Fit = "stretch",
    interpolation: Interpolation = "area",
    stride: int = 1,
    workers: int | None = None,
    on_error: OnError = "raise",
    decoding: DecoderConfig = ON_CPU,
    stream: Stream | None = None,
) -> FrameReader:
    """Return an iterable of every frame of `videos`, in order: see FrameReader.

    for batch in read_frames(["a.mp4", "b.mp4"], size=(256, 256)): ...

    `stream` is which video stream of each file, as `headrace.open` has it. `decoding` is what
    decodes, and where; with `keeps_on_device=True` frames are tensors there.
    """
    return FrameReader(
        videos if stream is None else [Source.of(each, stream) for each in videos],
        size=size,
        fit=fit,
        interpolation=interpolation,
        stride=stride,
        workers=workers,
        on_error=on_error,
        decoding=decoding,
    )
