"""Frame worker: decodes frames, encodes images, and records them in the journal."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from headrace.atomic_file import write_bytes_whole
from headrace.decode.frame_outputs import Array
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.errors import MediaError
from headrace.extraction.chunk_worker import ChunkWorker, chunk_of, plan_jobs, run_worker
from headrace.extraction.image_encoder import ImageEncoder
from headrace.extraction.journal import Journal, JournalEntry, Lost
from headrace.extraction.progress_recorder import StepTimer
from headrace.extraction.videos import frame_file
from headrace.runtime.child_process import Json
from headrace.runtime.worker_pool import ChunkReporter
from headrace.sampling.selection import selection_of


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
        name = frame_file(self._pictures, self.request.videos[video].name, decoder.index, index)
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
