"""Worker process that runs chunks, one after another."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from headrace.decode.decoder_config import DecoderConfig, to_option_words
from headrace.decode.frame_outputs import Array
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.errors import HeadraceError, MediaError
from headrace.extraction.decode_jobs import Decoders, spill_of
from headrace.extraction.extraction_options import shape_of_asked
from headrace.extraction.journal import Journal, JournalEntry
from headrace.extraction.videos import reopened
from headrace.planning.chunks import Chunk
from headrace.runtime.child_spec import Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.worker_protocol import ChunkReporter, iter_chunks
from headrace.video.frame_format import FrameFormat
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


class ChunkWorker(ABC):
    """Runs chunks of one kind of extraction; keeps decoders open between them."""

    def __init__(
        self, argument: dict[str, Any], journal: Journal, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Open nothing yet.

        Args:
            argument: Argument of all workers: see `Extraction.pool_task`.
            journal: Journal of the output folder.
            clock: Clock for the timings.
        """
        self.journal, self.clock = journal, clock
        self.raises = bool(argument["raises"])
        self.request = journal.request()
        decoding = DecoderConfig.parse(str(argument["decode"]))
        self.decoders = Decoders(decoding, spill=spill_of(argument, decoding))
        self._store = IndexStore(Path(str(argument["store"])))
        self._decoder: Decoder[Array] | None = None
        self._video = -1

    @abstractmethod
    def do(self, reporter: ChunkReporter) -> None:
        """Run one chunk, `chunk_of(reporter.payload)`: write its files, then its journal entry.

        Raises:
            HeadraceError: the chunk failed.
        """

    def shape_of(self, index: StreamIndex) -> FrameFormat:
        """Return the output format of a video's frames; default: from the options."""
        return shape_of_asked(self.request.asked)

    def decoder_of(self, video: int) -> Decoder[Array]:
        """Return the decoder of a video; it stays open until another video is requested."""
        if self._decoder is None or self._video != video:
            self.close()
            index = reopened(self.request.videos[video], self._store)
            self._video, self._decoder = video, self.decoders.open(index, self.shape_of(index))
        return self._decoder

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
        """Close what is open."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None


def do_chunks(
    argument: Json,
    send: Callable[[Json], None],
    worker_of: Callable[[dict[str, Any], Journal], ChunkWorker],
) -> None:
    """Run all remaining chunks, or until the time limit of a pilot run.

    An error of the whole run (a full disk, a bad frame with `on_error` "raise") is reported, and
    ends this worker.

    Args:
        argument: Argument of all workers: see `Extraction.pool_task`.
        send: Sends a message to the parent process.
        worker_of: Subclass of `ChunkWorker`.
    """
    assert isinstance(argument, dict)
    journal, began_ns = Journal(Path(str(argument["folder"]))), SYSTEM_CLOCK.now_ns()
    seconds = float(str(argument.get("seconds", "inf")))
    with journal.as_worker(), closing(worker_of(argument, journal)) as work:
        for reporter in iter_chunks(argument, send):
            if (SYSTEM_CLOCK.now_ns() - began_ns) / 1e9 > seconds:
                continue
            try:
                work.do(reporter)
            except HeadraceError as error:
                source = error.source if isinstance(error, MediaError) else None
                if source is not None and not work.raises:
                    reporter.send({"unreadable": str(error)})
                    continue
                reporter.send({"failed": {"why": to_option_words(str(error)), "source": source}})
                break
