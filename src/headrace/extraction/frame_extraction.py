"""Frames of videos as image files: options, worker, plan and estimate."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from io import BytesIO
from typing import Any, ClassVar, Final

import numpy as np

from headrace.atomic_file import write_bytes_whole
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import Array
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.errors import ConfigError, MediaError
from headrace.extraction.chunk_worker import ChunkWorker, chunk_of, plan_jobs, run_worker
from headrace.extraction.extraction import Extraction
from headrace.extraction.extraction_options import ExtractionOptions, RequestedVideo, encodable
from headrace.extraction.extraction_plan import Progress, Wanted, sample_offsets
from headrace.extraction.image_encoder import ImageEncoder, image_name
from headrace.extraction.journal import Journal, JournalEntry, Lost, Outcome
from headrace.extraction.pilot import PixelEstimate, pilot
from headrace.extraction.progress_recorder import StepTimer
from headrace.extras import check_extra
from headrace.planning.chunks import Chunk, chunks_of
from headrace.profiling.number_format import counted
from headrace.profiling.provenance import Scalar
from headrace.profiling.run_records import Role
from headrace.runtime.child_process import ChildFunction, Json
from headrace.runtime.worker_pool import ChunkReporter
from headrace.sampling.selection import Selection, selection_of
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import to_seconds

TABLE: Final = "frames.parquet"
"""File name of the table in the output folder, with a row for each image."""
_CHUNK_PIXELS: Final = 1e9
"""Approximate pixels decoded and encoded per chunk: seconds of work, so that workers end
together."""
_SAMPLES: Final = 6
"""Max images encoded for an estimate."""


@dataclass(frozen=True, kw_only=True)
class FrameExtractionOptions(ExtractionOptions):
    """Options of an extraction of frames as image files."""

    kind: ClassVar[str] = "frames"
    selection: Selection
    """Selected frames."""
    pictures: ImageEncoder = field(default_factory=ImageEncoder)

    def _asked(self) -> dict[str, Scalar]:
        first = dict.fromkeys(("format", "quality", "size"))
        return {"frames": str(self.selection), **first, **self.pictures.asked()}

    def _other_options(self) -> dict[str, Scalar]:
        return {
            **super()._other_options(),
            "rate": self.rate,
            "decode": DecoderConfig.parse(self.decode).name,
        }


@dataclass(frozen=True)
class FrameRow:
    """One image file."""

    index: int
    """Index of the frame in presentation order."""
    pts: int
    """Presentation time, in ticks of the video."""
    height: int
    width: int
    """Width of the image."""
    is_concealed: bool
    """Whether the frame is damaged, with FFmpeg's error concealment."""
    file: str
    """Path in the output folder."""
    bytes: int
    """Bytes of the file."""


def entry_of(rows: Sequence[FrameRow], lost: Sequence[Lost]) -> JournalEntry:
    """Return the journal entry of a chunk, in order of its frames."""
    rows = sorted(rows, key=lambda row: row.index)
    return JournalEntry(
        files=tuple((row.file, row.bytes) for row in rows),
        facts={"frames": [astuple(row)[:-2] for row in rows], "lost": [list(row) for row in lost]},
    )


def rows_of(entry: JournalEntry) -> Iterator[FrameRow]:
    """Yield the images of a chunk, in order of their frames."""
    for facts, (file, num_bytes) in zip(entry.facts["frames"], entry.files, strict=True):
        index, pts, height, width, is_concealed = facts
        yield FrameRow(index, pts, height, width, is_concealed, file, num_bytes)


def extract_frames(argument: Json, send: Callable[[Json], None]) -> Json:
    """Run all remaining chunks: see `Extraction.pool_task`."""
    return run_worker(argument, send, FrameWorker)


class FrameWorker(ChunkWorker):
    """Writes the images of chunks."""

    def __init__(self, argument: dict[str, Any], journal: Journal) -> None:
        """Open nothing yet: see `ChunkWorker`."""
        super().__init__(argument, journal)
        self._selection = selection_of(str(self.request.asked["frames"]))
        self._pictures = ImageEncoder.of_asked(self.request.asked)

    def run_chunk(self, reporter: ChunkReporter) -> None:
        """Run one chunk, except for images recorded by an earlier run."""
        chunk, _ = chunk_of(reporter.payload)
        decoder = self.decoder_of(chunk.video)
        before = DecodeCounters() + decoder.counters
        partial = self.journal.partial_entries([reporter.chunk]).values()
        rows = [row for entry in partial for row in rows_of(entry)]
        losses: list[Lost] = []
        wanted = chunk.of(self._selection.of(decoder.index))
        wanted = wanted[~np.isin(wanted, [row.index for row in rows])]

        def record_step(step: Json) -> None:
            self.journal.write_partial(reporter.chunk, entry_of(rows, []))
            reporter.send(step)

        timer = StepTimer(chunk.video, record_step, self.clock)
        for job in plan_jobs(decoder.index, wanted, conceals=self.request.conceals):
            start = len(rows)
            try:
                for index, pixels in timer.time_items("decode", decoder.run(job)):
                    rows.append(self._write(chunk.video, decoder, index, pixels, timer))
                    timer.count_frame(index)
            except MediaError as error:
                if self.raises:
                    raise
                written = {row.index for row in rows[start:]}
                losses += [Lost(index, str(error)) for index in job.wanted if index not in written]
        timer.end_step()
        cost = decoder.counters - before
        self.finish(reporter, entry_of(rows, losses), cost, lost=len(losses))

    def _write(
        self, video: int, decoder: Decoder[Array], index: int, pixels: Array, timer: StepTimer
    ) -> FrameRow:
        """Write the image of a frame."""
        with timer.part("encode"):
            content = self._pictures.encode(pixels)
        name = _file_name(self._pictures, self.request.videos[video].name, decoder.index, index)
        with timer.part("write"):
            write_bytes_whole(self.journal.folder / name, content)
        return FrameRow(
            index=index,
            pts=int(decoder.index.pts[index]),
            height=pixels.shape[0],
            width=pixels.shape[1],
            is_concealed=index in decoder.concealed,
            file=name,
            bytes=len(content),
        )


@dataclass(frozen=True, kw_only=True)
class FrameEstimate(PixelEstimate):
    """Size and time of the image files of an extraction."""

    least_bytes: int | None
    most_bytes: int | None
    """Bytes of the smallest and the largest sample."""

    @property
    def contents(self) -> str:
        """The output in words."""
        return f"{counted(self.frames, 'image')} of {counted(self.videos, 'video')}"

    @property
    def size_basis(self) -> str:
        """Basis of the estimated size, in words."""
        least, most = (self.least_bytes or 0) / 1e3, (self.most_bytes or 0) / 1e3
        return f"estimated from {counted(self.tried, 'sample')} of {least:.0f} to {most:.0f} kB"


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameExtraction(Extraction[FrameExtractionOptions]):
    """Prepared extraction of image files: `FrameExtraction.prepare(options).run()`."""

    noun: ClassVar[str] = "image"
    roles: ClassVar[Mapping[str, Role]] = {"decode": "decode", "encode": "sink", "write": "sink"}
    concealed: ClassVar[str] = "the file is damaged there; FFmpeg conceals the damage in the image"
    outputs: ClassVar[tuple[str, ...]] = (TABLE,)
    function: ChildFunction = field(default=extract_frames)

    @classmethod
    def check(cls, options: FrameExtractionOptions) -> None:
        """Check that images and their table can be written: see `Extraction.check`."""
        check_extra("parquet", f"the table of the frames, {TABLE},")
        options.pictures.check()

    @classmethod
    def cut_chunks(
        cls, options: FrameExtractionOptions, video: int, index: StreamIndex
    ) -> tuple[Wanted, list[Chunk]]:
        """Return the selected frames, and chunks of about the same work."""
        wanted, size = options.selection.of(index), index.info.upright_size
        size = options.shape.output_size(size)
        options.pictures.check_size(size, str(index.source))
        cost = options.pictures.cost_of(size)
        return wanted, chunks_of(video, index, wanted, frame_cost=cost, max_cost=_CHUNK_PIXELS)

    def __post_init__(self) -> None:
        if not self.plan.chunks:
            raise ConfigError(
                f"{str(self.options.selection)!r} selects no frame of "
                f"{next(iter(self.plan.indexes.values())).source}; select others, as with --every 1"
            )

    def outcome_of(self, entry: JournalEntry) -> Outcome:
        """Return the outcome of a chunk from its journal entry."""
        return Outcome(
            came=len(entry.files),
            lost=tuple(Lost(*lost) for lost in entry.facts["lost"]),
            concealed=tuple(row.index for row in rows_of(entry) if row.is_concealed),
        )

    def frames_in(self, entry: JournalEntry) -> Collection[int]:
        """Return the frames with an image file."""
        return [row.index for row in rows_of(entry)]

    def finish(self, journal: Journal, progress: Progress) -> None:
        """Remove images without a journal entry; write the table when all chunks are finished."""
        plan, entries = self.plan, progress.entries
        for name in progress.failed:
            chunk = plan.by_name[name]
            for loss in progress.unfinished[name].lost:
                video, index = plan.request.videos[chunk.video].name, plan.indexes[chunk.video]
                file = _file_name(self.options.pictures, video, index, loss.index)
                with suppress(OSError):
                    (journal.folder / file).unlink()
        if not progress.without(plan.chunks):
            rows = [
                _table_row(plan.request.videos[chunk.video], plan.indexes[chunk.video], row)
                for chunk in plan.chunks
                if chunk.name in entries
                for row in rows_of(entries[chunk.name])
            ]
            write_bytes_whole(journal.folder / TABLE, _table_content(rows))

    def estimate(self) -> FrameEstimate:
        """Return count, size and time of the images, from up to 6 discarded samples."""
        plan = self.plan
        frames = np.concatenate(list(plan.wanted.values()))
        videos = np.repeat(list(plan.wanted), [len(wanted) for wanted in plan.wanted.values()])
        chunks = [
            Chunk(video=int(videos[k]), start=int(frames[k]), stop=int(frames[k]) + 1, frames=1)
            for k in sample_offsets(plan.total, _SAMPLES)
        ]
        samples = pilot(self, chunks, self.options.shape.output_size)
        return FrameEstimate.of(
            self,
            samples,
            {chunk.name: f"{plan.path_of(chunk)}, frame {chunk.start}" for chunk in chunks},
            least_bytes=min(samples.sizes, default=None),
            most_bytes=max(samples.sizes, default=None),
        )


def _file_name(pictures: ImageEncoder, video: str, index: StreamIndex, frame: int) -> str:
    seconds = to_seconds(int(index.pts[frame]), index.info.time_base)
    return image_name(pictures, video, frame, seconds, len(index))


def _table_row(video: RequestedVideo, index: StreamIndex, row: FrameRow) -> dict[str, Any]:
    time_base = index.info.time_base
    return {
        **vars(row),
        "video": encodable(video.name),
        "path": encodable(video.path),
        "time_base_num": time_base.numerator,
        "time_base_den": time_base.denominator,
        "pts_seconds": float(to_seconds(row.pts, time_base)),
        "is_keyframe": bool(index.is_keyframe[row.index]),
        "file": encodable(row.file),
    }


def _table_content(rows: list[dict[str, Any]]) -> bytes:
    """Return the rows as a Parquet file. With one version of pyarrow, equal rows give equal bytes.

    Takes about 300 bytes of memory per row.
    """
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema(
        [
            *((name, pyarrow.string()) for name in ("video", "path")),
            *((name, pyarrow.int64()) for name in ("index", "pts")),
            *((name, pyarrow.int64()) for name in ("time_base_num", "time_base_den")),
            ("pts_seconds", pyarrow.float64()),
            *((name, pyarrow.bool_()) for name in ("is_keyframe", "is_concealed")),
            ("file", pyarrow.string()),
            *((name, pyarrow.int32()) for name in ("width", "height")),
            ("bytes", pyarrow.int64()),
        ]
    )
    file = BytesIO()
    table = pyarrow.Table.from_pylist(rows, schema=schema)
    pyarrow.parquet.write_table(table, file, compression="zstd")
    return file.getvalue()
