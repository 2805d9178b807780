"""Proxies of many videos: worker, plan, estimate, list and totals."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from headrace.atomic_file import partial_of
from headrace.decode.frame_outputs import Array
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.decode.proxies import LIST, VIDEOS, ProxyRow, write_rows
from headrace.decode.proxy_index import ProxyPackets, write_proxy_entry
from headrace.errors import BackendError, DecodeError, file_errors
from headrace.extraction.chunk_worker import (
    ChunkWorker,
    chunk_of,
    group_jobs,
    plan_jobs,
    run_worker,
)
from headrace.extraction.extraction import Extraction
from headrace.extraction.extraction_plan import KindSummary, Progress
from headrace.extraction.journal import HOME, Journal, JournalEntry, Lost, Outcome
from headrace.extraction.pilot import PixelEstimate, pilot
from headrace.extraction.progress_recorder import ProgressRecorder, StepTimer
from headrace.extraction.proxies.encoder import PlayTimes, ProxyFile, ProxyFormat, read_back
from headrace.extraction.proxies.proxy_options import (
    ProxyOptions,
    check_encoder,
    encoding_of,
    proxy_size,
)
from headrace.profiling.number_format import counted, percent
from headrace.profiling.run_records import Role, Setup
from headrace.profiling.session import Outcome as RunOutcome
from headrace.runtime.child_process import ChildFunction, Json
from headrace.runtime.worker_pool import ChunkReporter
from headrace.video.frame_format import TAG_BYTES, FrameFormat
from headrace.video.metadata import read_metadata
from headrace.video.stream_index import StreamIndex

_ROLES: Final[Mapping[str, Role]] = {"decode": "decode", "encode": "sink", "compare": "sink"}
"""Part of the work of one worker → its role, in order."""
_STEP_FRAMES: Final = 64
_JOB_BYTES: Final = 16 << 20
"""Max bytes of frames decoded ahead of the encoder."""
_SQUARE: Final = Fraction(1, 50)
"""Max deviation from square pixels to store as square: sides are rounded to even numbers."""


def make_proxies(argument: Json, send: Callable[[Json], None]) -> Json:
    """Run all remaining chunks: see `Extraction.pool_task`."""
    return run_worker(argument, send, ProxyWorker)


class ProxyWorker(ChunkWorker):
    """Worker that makes proxies, one after another."""

    def __init__(self, argument: dict[str, Any], journal: Journal) -> None:
        """Open nothing yet: see `ChunkWorker`."""
        super().__init__(argument, journal)
        self._asked: Mapping[str, Any] = self.request.asked
        self._size = proxy_size(str(self._asked["size"]))

    def shape_of(self, index: StreamIndex) -> FrameFormat:
        """Return the format of a proxy's frames."""
        return FrameFormat(size=self._size.of(index.info.upright_size), layout="yuv420")

    def run_chunk(self, reporter: ChunkReporter) -> None:
        """Write the files of one proxy, then its journal entry.

        Raises:
            ConfigError: the folder cannot be written.
            BackendError: the encoder does not support frames of this size.
            MediaError: the video is damaged and `on_error` is "raise"; or it can no longer be
                opened, or has changed.
        """
        began_ns, (chunk, _) = self.clock.now_ns(), chunk_of(reporter.payload)
        name, decoder = self.request.videos[chunk.video].name, self.decoder_of(chunk.video)
        before = DecodeCounters() + decoder.counters
        partial = partial_of(self.journal.folder / HOME / f"{name}.mp4")
        timer = StepTimer(
            chunk.video, reporter.send, self.clock, parts=(*_ROLES,), frames=_STEP_FRAMES
        )
        try:
            frames = range(chunk.start, chunk.stop)
            file, packets = self._make(decoder, partial, frames, timer)
            entry = self._publish(file, packets, name, decoder.index, began_ns)
        except (BackendError, DecodeError) as error:
            if self.raises:
                raise
            entry = JournalEntry(files=(), facts={"left_out": str(error)})
        cost = decoder.counters - before
        self.finish(reporter, entry, cost, lost=0 if entry.files else len(decoder.index))

    def _make(
        self, decoder: Decoder[Array], path: Path, frames: range, timer: StepTimer
    ) -> tuple[ProxyFile, ProxyPackets]:
        """Write a proxy to `path`, and read it back; the file exists only after success.

        Args:
            decoder: Decoder of the video; returns packed YUV 4:2:0 in the size of the proxy.
            path: Path of the proxy.
            frames: Frame indices: all, except in a sample.
            timer: Timer of the parts of the work.

        Returns:
            The closed file, and its packet table.

        Raises:
            ConfigError: the file cannot be written.
            BackendError: the encoder does not support frames of this size.
            DecodeError: a frame cannot be decoded.
            StageError: frames read back from disk differ from the written ones.
        """
        index, size = decoder.index, decoder.shape.size
        assert size is not None
        codec, gop = self._asked["codec"], int(str(self._asked["gop"]))
        lost: list[int] = []
        wanted = np.asarray(frames)
        decoded = timer.time_items("decode", _frames(decoder, self.request.conceals, wanted, lost))
        first = next(decoded)
        matrix, span = first[1][-TAG_BYTES:].tolist()
        proxy_format = ProxyFormat(
            size=size,
            codec=codec,
            gop=gop,
            color=encoding_of(codec, gop).color or (matrix, span),
            pixel_aspect=_pixel_aspect(decoder),
        )
        with ProxyFile(path, proxy_format, PlayTimes.of(index)) as file:
            for frame_index, packed in chain([first], decoded):
                with timer.part("encode"):
                    encoded = file.write(packed)
                with timer.part("compare"):
                    file.compare(encoded)
                timer.count_frame(frame_index)
            with timer.part("encode"):
                encoded = file.finish()
            with timer.part("compare"):
                file.compare(encoded)
                packets = read_back(file, index, len(frames), lost)
        timer.end_step()
        return file, packets

    def _publish(
        self, file: ProxyFile, packets: ProxyPackets, name: str, index: StreamIndex, began_ns: int
    ) -> JournalEntry:
        """Move the files of a proxy into place; return the journal entry."""
        folder, proxy_format = self.journal.folder, file.format
        proxy, facts = Path(VIDEOS) / f"{name}.mp4", Path(VIDEOS) / f"{name}.npz"
        with file_errors(f"cannot write {folder / proxy}", "give another folder with -o"):
            (folder / VIDEOS).mkdir(exist_ok=True)
            num_bytes = file.path.stat().st_size
            file.path.replace(folder / proxy)
        write_proxy_entry(folder / facts, index, packets)
        row = ProxyRow(
            path=str(index.source.path),
            name=name,
            stream=index.source.stream,
            fingerprint=asdict(index.fingerprint),
            content=index.source.content_id(),
            proxy=proxy.as_posix(),
            bytes=num_bytes,
            original_bytes=index.fingerprint.size,
            frames=len(index),
            height=proxy_format.size[0],
            width=proxy_format.size[1],
            original_height=index.info.upright_size[0],
            original_width=index.info.upright_size[1],
            gop=proxy_format.gop,
            codec=proxy_format.codec,
            psnr=file.quality.psnr,
            ssim=file.quality.ssim,
            lost=tuple(packets.lost.tolist()),
            seconds=round((self.clock.now_ns() - began_ns) / 1e9, 3),
        )
        files = ((str(proxy), num_bytes), (str(facts), (folder / facts).stat().st_size))
        return JournalEntry(files=files, facts=asdict(row))


def _frames(
    decoder: Decoder[Array], conceals: bool, wanted: NDArray[np.int64], lost: list[int]
) -> Iterator[tuple[int, Array]]:
    """Yield the wanted frames in order; add concealed ones to `lost`."""
    size = decoder.shape.size
    assert size is not None
    (num_bytes,) = decoder.shape.array_shape(size)
    max_frames = max(1, _JOB_BYTES // num_bytes)
    jobs = plan_jobs(decoder.index, wanted, conceals=conceals, min_frames=max_frames)
    for group in group_jobs(jobs, lambda: max_frames):
        for job in group:
            # Concealed frames come last.
            frames = sorted(decoder.run(job), key=lambda frame: frame[0])
            lost += decoder.concealed
            yield from frames


def _pixel_aspect(decoder: Decoder[Array]) -> Fraction:
    """Return the pixel aspect with which players display a proxy like its original."""
    index, shape = decoder.index, decoder.shape
    upright = index.info.upright_size
    height, width = shape.output_size(upright)
    source_height, source_width = replace(shape, size=None, layout="rgb").output_size(upright)
    original = read_metadata(index).pixel_aspect or Fraction(1)
    aspect = original * Fraction(source_width * height, width * source_height)
    return Fraction(1) if abs(aspect - 1) < _SQUARE else aspect.limit_denominator(255)


_SAMPLES: Final = 4
"""Max samples for an estimate."""
_FRAMES: Final = 64
"""Max frames of a sample."""


@dataclass(frozen=True, kw_only=True)
class ProxyEstimate(PixelEstimate):
    """Size and time of the proxies of an extraction."""

    original_bytes: int
    """Bytes of the files of the originals."""

    @property
    def contents(self) -> str:
        """The output in words."""
        return f"proxies of {counted(self.frames, 'frame')} of {counted(self.videos, 'video')}"

    @property
    def size_basis(self) -> str:
        """Basis of the estimated size, in words."""
        share = percent((self.num_bytes or 0) / self.original_bytes)
        return f"{share} of the originals, estimated from {counted(self.tried, 'frame')}"


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyMaking(Extraction[ProxyOptions]):
    """Prepared extraction of proxies: `ProxyMaking.prepare(options).run()`.

    A worker makes one proxy at a time.
    """

    noun: ClassVar[str] = "frame"
    roles: ClassVar[Mapping[str, Role]] = _ROLES
    concealed: ClassVar[str] = "the file is damaged there; FFmpeg conceals the damage in the proxy"
    outputs: ClassVar[tuple[str, ...]] = (LIST,)
    is_by_video: ClassVar[bool] = True
    function: ChildFunction = field(default=make_proxies)

    @classmethod
    def check(cls, options: ProxyOptions) -> None:
        """Check that the encoder is installed: see `Extraction.check`."""
        check_encoder(options.codec)

    def outcome_of(self, entry: JournalEntry) -> Outcome:
        """Return the outcome of a video from its journal entry."""
        if not entry.files:
            return Outcome(came=0, lost=(Lost(0, str(entry.facts["left_out"])),))
        row = ProxyRow.parse(entry.facts)
        return Outcome(came=row.frames, concealed=tuple(row.lost))

    def finish(self, journal: Journal, progress: Progress) -> None:
        """Write the list of the finished proxies."""
        entries = [progress.entries.get(chunk.name) for chunk in self.plan.chunks]
        rows = (ProxyRow.parse(entry.facts) for entry in entries if entry and entry.files)
        write_rows(journal.folder, rows)

    def summarize(self, recorder: ProgressRecorder, outcome: RunOutcome) -> KindSummary:
        """Return the settings of encoding, and the list of proxies."""
        return KindSummary(setup=Setup(batch_size=1), outputs=self.outputs)

    def estimate(self) -> ProxyEstimate:
        """Return size and time of the proxies.

        Makes up to 4 samples of 64 frames, spread over the videos, and discards them.
        """
        plan, chunks = self.plan, []
        for chunk in plan.sample(_SAMPLES):
            index = plan.indexes[chunk.video]
            first = int(index.gop_start[index.num_gops // 2]) if index.num_gops > 1 else 0
            stop = min(first + _FRAMES, len(index))
            chunks.append(replace(chunk, start=first, stop=stop, frames=stop - first))
        return ProxyEstimate.of(
            self,
            pilot(self, chunks, self.options.size.of),
            {chunk.name: plan.path_of(chunk) for chunk in chunks},
            original_bytes=sum(index.fingerprint.size for index in plan.indexes.values()),
        )


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Luma quality relative to the originals, in the size of the proxies."""

    mean: float
    """Mean over all frames, from the means of their videos."""
    worst: float
    """Worst frame."""
    worst_path: str
    """Path of the original with the worst frame."""


@dataclass(frozen=True, kw_only=True)
class ProxyTotals:
    """Totals of all proxies in a folder."""

    proxies: int
    frames: int
    bytes: int
    original_bytes: int
    seconds: float
    """Seconds to make them, summed over the workers."""
    psnr: Quality | None
    """Decibel; 100 for equal frames."""
    ssim: Quality | None
    """Up to 1; windows of 8x8. None if all proxies are smaller."""

    @classmethod
    def of(cls, rows: Sequence[ProxyRow]) -> "ProxyTotals | None":
        """Return the totals of `rows`; None without rows."""
        if not rows:
            return None
        return cls(
            proxies=len(rows),
            frames=sum(row.frames for row in rows),
            bytes=sum(row.bytes for row in rows),
            original_bytes=sum(row.original_bytes for row in rows),
            seconds=round(sum(row.seconds for row in rows), 3),
            psnr=_quality(rows, [row.psnr for row in rows]),
            ssim=_quality(rows, [row.ssim for row in rows]),
        )


def _quality(rows: Sequence[ProxyRow], measures: Sequence[Mapping[str, float]]) -> Quality | None:
    pairs = [(row, measure) for row, measure in zip(rows, measures, strict=True) if measure]
    if not pairs:
        return None
    frames = sum(row.frames for row, _ in pairs)
    mean = sum(row.frames * measure["mean"] for row, measure in pairs) / frames
    worst, path = min((measure["worst"], row.path) for row, measure in pairs)
    return Quality(mean=round(mean, 5), worst=worst, worst_path=path)
