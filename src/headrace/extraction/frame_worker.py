"""One worker of frames: decodes them, makes pictures of them, and notes which are there."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from headrace.atomic_file import write_bytes_whole
from headrace.decode.frame_outputs import Array
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.errors import MediaError
from headrace.extraction.chunk_worker import ChunkWorker, chunk_of, do_chunks
from headrace.extraction.decode_jobs import jobs
from headrace.extraction.image_encoder import ImageEncoder
from headrace.extraction.journal import Journal, JournalEntry, Lost
from headrace.extraction.progress_recorder import StepTimer
from headrace.extraction.videos import frame_file
from headrace.planning.gop_ranges import split_ranges
from headrace.runtime.child_spec import Json
from headrace.runtime.worker_protocol import ChunkReporter
from headrace.sampling.selection import selection_of


@dataclass(frozen=True)
class FrameRow:
    """One picture."""

    index: int
    """Place of the frame in presentation order."""
    pts: int
    """When it is shown, in ticks of its video."""
    height: int
    width: int
    """Of the picture."""
    is_concealed: bool
    """Whether it is damaged, and shown as FFmpeg shows it."""
    file: str
    """Name, in the output folder."""
    num_bytes: int
    """Of the file."""


def entry_of(rows: Sequence[FrameRow], lost: Sequence[Lost]) -> JournalEntry:
    """Return the entry of a chunk, in order of its frames."""
    rows = sorted(rows, key=lambda row: row.index)
    return JournalEntry(
        files=tuple((row.file, row.num_bytes) for row in rows),
        facts={"frames": [astuple(row)[:-2] for row in rows], "lost": [list(row) for row in lost]},
    )


def rows_of(entry: JournalEntry) -> Iterator[FrameRow]:
    """Yield the pictures of a chunk, in order."""
    for facts, (file, num_bytes) in zip(entry.facts["frames"], entry.files, strict=True):
        index, pts, height, width, is_concealed = facts
        yield FrameRow(index, pts, height, width, is_concealed, file, num_bytes)


def extract_frames(argument: Json, send: Callable[[Json], None]) -> Json:
    """Do chunks until none is left: see `Extraction.work`."""
    do_chunks(argument, send, FrameWorker)
    return None


class FrameWorker(ChunkWorker):
    """Makes the pictures of chunks."""

    def __init__(self, argument: dict[str, Any], journal: Journal) -> None:
        """Open nothing yet: see `ChunkWorker`."""
        super().__init__(argument, journal)
        self._selection = selection_of(str(self.request.asked["frames"]))
        self._pictures = ImageEncoder.of_asked(self.request.asked)

    def do(self, speaker: ChunkReporter) -> None:
        """Do one chunk: what an earlier run noted of it is not done again."""
        chunk, _ = chunk_of(speaker.payload)
        decoder = self.opened(chunk.video)
        before = DecodeCounters() + decoder.counters
        noted = self.journal.noted([speaker.chunk]).values()
        rows = [row for entry in noted for row in rows_of(entry)]
        lost: list[Lost] = []
        wanted = chunk.of(self._selection.of(decoder.index))
        wanted = wanted[~np.isin(wanted, [row.index for row in rows])]

        def say(step: Json) -> None:
            self.journal.note(speaker.chunk, entry_of(rows, []))
            speaker.send(step)

        watch = StepTimer(chunk.video, say, self.clock)
        planned = list(split_ranges(chunk.video, decoder.index, wanted))
        for job in jobs(planned, conceals=self.request.conceals):
            came = len(rows)
            try:
                self._run(chunk.video, decoder, job, rows, watch)
            except MediaError as error:
                if self.raises:
                    raise
                found = {row.index for row in rows[came:]}
                lost += [Lost(index, str(error)) for index in job.wanted if index not in found]
        watch.end_step()
        cost = decoder.counters - before
        self.finish(speaker, entry_of(rows, lost), cost, lost=len(lost))

    def _run(
        self,
        video: int,
        decoder: Decoder[Array],
        job: DecodeJob,
        rows: list[FrameRow],
        watch: StepTimer,
    ) -> None:
        frames = decoder.run(job)
        name = self.request.videos[video].name
        while True:
            with watch.part("decode"):
                number, pixels = next(frames, (-1, None))
            if pixels is None:
                return
            with watch.part("encode"):
                content = self._pictures.encode(pixels)
            file = frame_file(self._pictures, name, decoder.index, number)
            with watch.part("write"):
                write_bytes_whole(self.journal.folder / file, content)
            rows.append(
                FrameRow(
                    index=number,
                    pts=int(decoder.index.pts[number]),
                    height=pixels.shape[0],
                    width=pixels.shape[1],
                    is_concealed=number in decoder.concealed,
                    file=file,
                    num_bytes=len(content),
                )
            )
            watch.came(number)
