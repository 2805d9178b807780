"""Bases of worker processes: their task, the videos, decoders and decode jobs."""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.cache.spill_store import SpillStore
from headrace.cache.store import ignore_warning
from headrace.cached_property import cached_property
from headrace.decode.decoder_config import DecoderConfig, to_option_words, use_option_words
from headrace.decode.frame_outputs import Array
from headrace.decode.gpu.gpu_decoding import DeviceScheduler
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import LatestDecoder, open_any_decoder, open_index
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.decode.spilled_decoder import open_spill
from headrace.errors import HeadraceError, MediaError, OpenError
from headrace.extraction.extraction_options import shape_of_asked
from headrace.extraction.journal import Journal, JournalEntry
from headrace.planning.chunks import Chunk, split_ranges
from headrace.runtime.child_process import Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.worker_pool import ChunkReporter, iter_rounds
from headrace.video.frame_format import FrameFormat
from headrace.video.image_sequence import source_at
from headrace.video.source import FileStat
from headrace.video.stream_index import StreamIndex


def chunk_message(chunk: Chunk, content: str | None = None) -> Json:
    """Return the message for a chunk; `content`: content digest of its video, if known."""
    return [chunk.video, chunk.start, chunk.stop, chunk.frames, content]


def chunk_of(message: Json) -> tuple[Chunk, str | None]:
    """Return the chunk of a message, and the content digest of its video."""
    assert isinstance(message, list)
    *numbers, content = message
    video, start, stop, frames = (int(str(number)) for number in numbers)
    chunk = Chunk(video=video, start=start, stop=stop, frames=frames)
    return chunk, None if content is None else str(content)


class Worker(ABC):
    """Worker process of one kind of extraction: its task, the journal and the videos."""

    def __init__(
        self, argument: dict[str, Any], journal: Journal, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Open nothing yet.

        Args:
            argument: Argument of all workers: see `Extraction.pool_task`.
            journal: Journal of the output folder.
            clock: Clock for the timings.
        """
        self.argument, self.journal, self.clock = argument, journal, clock
        self.raises = bool(argument["raises"])
        self.request = journal.request()
        self.decoding = DecoderConfig.parse(str(argument["decode"]))
        self._store = IndexStore(Path(argument["store"]))
        self._began_ns = clock.now_ns()

    @cached_property
    def spill(self) -> SpillStore | None:
        """Spill store, if requested. `Decoders.reasons` yields its warnings."""
        folder, budget = self.argument.get("spill"), self.argument.get("spill_budget")
        return open_spill(folder, self.decoding, budget=budget, on_warning=ignore_warning)

    @abstractmethod
    def run(self, reporters: Iterator[ChunkReporter]) -> None:
        """Run the chunks of a round.

        An error of the whole run (a full disk, or a bad frame with `on_error` "raise") is reported
        and ends the round.
        """

    def index_of(self, video: int) -> StreamIndex:
        """Return the index of a video, unchanged since the extraction was planned.

        Raises:
            MediaError: the video can no longer be opened, or has changed.
        """
        requested = self.request.videos[video]
        index = open_index(source_at(requested.path, rate=requested.rate), self._store)
        if index.fingerprint != FileStat(requested.size or 0, requested.mtime_ns or 0):
            raise OpenError(
                f"{requested.path} has changed since the extraction was planned; "
                "extract it into another folder",
                source=requested.path,
            )
        return index

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""


class ChunkWorker(Worker):
    """Runs chunks one after another; keeps the latest decoder open between them."""

    @cached_property
    def decoders(self) -> "Decoders":
        """Decoders of this worker."""
        return Decoders(self.decoding, spill=self.spill)

    @cached_property
    def _latest(self) -> "LatestDecoder[int]":
        return LatestDecoder(self._open)

    def run(self, reporters: Iterator[ChunkReporter]) -> None:
        """Run the chunks of a round, or until the time limit of a pilot run: see `Worker.run`."""
        seconds = float(self.argument.get("seconds", "inf"))
        for reporter in reporters:
            reporter.report_started()
            if (self.clock.now_ns() - self._began_ns) / 1e9 <= seconds:
                try:
                    self.run_chunk(reporter)
                except HeadraceError as error:
                    if self.raises or not isinstance(error, MediaError) or error.source is None:
                        report_failure(reporter, error)
                        return
                    reporter.send({"unreadable": str(error)})
            reporter.report_done()

    @abstractmethod
    def run_chunk(self, reporter: ChunkReporter) -> None:
        """Run one chunk, `chunk_of(reporter.payload)`: write its files, then its journal entry.

        Raises:
            HeadraceError: the chunk failed.
        """

    def shape_of(self, index: StreamIndex) -> FrameFormat:
        """Return the output format of a video's frames; default: from the options."""
        return shape_of_asked(self.request.asked)

    def decoder_of(self, video: int) -> Decoder[Array]:
        """Return the decoder of a video; it stays open until another video is requested."""
        return self._latest.of(video)

    def finish(
        self, reporter: ChunkReporter, entry: JournalEntry, cost: DecodeCounters, *, lost: int
    ) -> None:
        """Write the journal entry of a chunk whose files exist, and report its cost."""
        self.journal.write(reporter.chunk, entry)
        spent: Json = dict(vars(cost))
        reporter.send({"chunk": {"decode": spent, "lost": lost}})
        frames_by: Json = dict(self.decoders.frames())
        if frames_by:
            reporter.send({"frames_by": frames_by})
        for reason in self.decoders.reasons():
            reporter.send({"note": reason})

    def close(self) -> None:
        """Close the latest decoder."""
        self._latest.close()

    def _open(self, video: int) -> Decoder[Array]:
        index = self.index_of(video)
        return self.decoders.open(index, self.shape_of(index))


def run_worker(
    argument: Json,
    send: Callable[[Json], None],
    worker_of: Callable[[dict[str, Any], Journal], Worker],
) -> Json:
    """Run all remaining chunks; return None, the result of a `ChildFunction`.

    Args:
        argument: Argument of all workers: see `Extraction.pool_task`.
        send: Sends a message to the parent process.
        worker_of: Subclass of `Worker`.
    """
    assert isinstance(argument, dict)
    journal = Journal(Path(str(argument["folder"])))
    with journal.as_worker(), closing(worker_of(argument, journal)) as work:
        for reporters in iter_rounds(argument, send):
            work.run(reporters)
    return None


def report_failure(reporter: ChunkReporter, error: HeadraceError) -> None:
    """Report an error of the whole run, which the parent process raises."""
    source = error.source if isinstance(error, MediaError) else None
    reporter.send({"failed": {"why": to_option_words(str(error)), "source": source}})


def plan_jobs(
    index: StreamIndex,
    wanted: NDArray[np.int64],
    *,
    conceals: bool,
    goes_on: bool = False,
    min_frames: int = 1,
) -> Iterator[DecodeJob]:
    """Yield a decode job for each GOP range of one video.

    A decoder continues only into an adjacent range, so a sparse frame costs one seek and its GOP up
    to the frame.

    Args:
        index: Index of the video.
        wanted: Wanted frames, int64, ascending.
        conceals: Whether damaged frames are concealed by FFmpeg.
        goes_on: Whether more frames follow the last range.
        min_frames: Frames up to which consecutive GOPs are one range.
    """
    ranges = [part.wanted for part in split_ranges(0, index, wanted, at_least=min_frames)]
    for frames, next_frames in zip_longest(ranges, ranges[1:]):
        is_adjacent = goes_on
        if next_frames is not None:
            is_adjacent = index.gop_of(next_frames[0]) == index.gop_of(frames[-1]) + 1
        yield DecodeJob(frames, goes_on=is_adjacent, conceals=conceals)


def group_jobs(
    jobs: Iterable[DecodeJob], max_frames: Callable[[], int]
) -> Iterator[list[DecodeJob]]:
    """Yield the jobs in groups of up to `max_frames()` frames; a job is split at a group's end."""
    remaining = deque(jobs)
    while remaining:
        group: list[DecodeJob] = []
        frames = max_frames()
        while frames and remaining:
            job = remaining.popleft()
            if len(job.wanted) > frames:
                remaining.appendleft(replace(job, wanted=job.wanted[frames:]))
                job = DecodeJob(job.wanted[:frames], conceals=job.conceals)
            group.append(job)
            frames -= len(job.wanted)
        yield group


class Decoders:
    """Decoders of one worker. With `auto`, they share their measurements.

    Decoders may be opened in several threads; `frames` and `reasons` are for one thread.
    """

    def __init__(
        self,
        decoding: DecoderConfig,
        *,
        threads: int = 1,
        gpu: int = 0,
        spill: SpillStore | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            decoding: Backend and device.
            threads: Concurrent decoding threads.
            gpu: GPU index for `auto`.
            spill: Spill store.
        """
        self._decoding, self._spill = decoding, spill
        self._scheduler = DeviceScheduler(cores=threads, gpu=gpu) if decoding.is_auto else None
        self._reported_frames = Counter[str]()
        self._reported_reasons: set[str] = set()

    def open(self, index: StreamIndex, shape: FrameFormat) -> Decoder[Array]:
        """Return a decoder of a video; the caller closes it. Raises: see `open_decoder`."""
        with use_option_words():
            return open_any_decoder(
                index, shape, self._decoding, scheduler=self._scheduler, spill=self._spill
            )

    def frames(self) -> dict[str, int]:
        """Return device (`cpu`, `cuda:0`) → frames decoded since the last call.

        Empty unless decoding is `auto`.
        """
        devices = {} if self._scheduler is None else self._scheduler.decoded_by.devices
        totals = Counter({device: counts.frames for device, counts in devices.items()})
        new_frames = totals - self._reported_frames
        self._reported_frames = totals
        return dict(new_frames)

    def reasons(self) -> Iterator[str]:
        """Yield warnings of the spill store, and why `auto` uses the CPU for a file, each once."""
        reasons = [] if self._spill is None else list(self._spill.warnings)
        if self._scheduler is not None:
            decoded_by = self._scheduler.decoded_by
            if decoded_by.no_gpu is not None:
                reasons.append(f"decoded by the CPU alone, as {decoded_by.no_gpu}")
            on_cpu = decoded_by.on_cpu.items()
            reasons += [f"decoded by the CPU: {file}: {reason}" for file, reason in on_cpu]
        yield from (reason for reason in reasons if reason not in self._reported_reasons)
        self._reported_reasons.update(reasons)
