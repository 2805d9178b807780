"""What one worker does with a chunk of frames: decode, encode, write."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from headrace.decode.decoding import ON_CPU, Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.pixels import Array
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder
from headrace.errors import MediaError
from headrace.extraction.decoders import Decoders
from headrace.extraction.frame_request import pictures_of
from headrace.extraction.frame_rows import FrameRow, LostRow, entry_of, rows_of
from headrace.extraction.jobs import jobs
from headrace.extraction.ledger import Ledger
from headrace.extraction.names import frame_file
from headrace.extraction.step_watch import StepWatch
from headrace.extraction.videos import reopened
from headrace.extraction.work_loop import do_chunks
from headrace.planning.chunks import frames_between
from headrace.planning.stretches import stretches
from headrace.runtime.child import Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.speaker import Speaker
from headrace.sampling.selection import selection_of
from headrace.text_file import write_bytes_whole
from headrace.video.shape import FrameShape


def extract_frames(argument: Json, send: Callable[[Json], None]) -> Json:
    """Do chunks of frames until none is left: a `ChildFunction`."""
    assert isinstance(argument, dict)
    decoding = Decoding.named(str(argument["decode"]))
    do_chunks(argument, send, partial(FrameWorker, decoding=decoding))
    return None


class FrameWorker:
    """Makes pictures of chunks. It keeps one video open: the next chunk is likely of it."""

    def __init__(
        self,
        ledger: Ledger,
        store: IndexStore,
        raises: bool,
        clock: Clock = SYSTEM_CLOCK,
        *,
        decoding: Decoding = ON_CPU,
    ) -> None:
        """Open nothing yet; `raises`: bad media is an error; `decoding`: frames come down."""
        self._decoders = Decoders(decoding)
        request = ledger.request()
        self._ledger, self._store, self._raises, self._clock = ledger, store, raises, clock
        self._videos = request.videos
        self._selection = selection_of(str(request.asked["frames"]))
        self._pictures = pictures_of(request)
        self._conceals = request.conceals
        self._video: int | None = None
        self._wanted: NDArray[np.int64] = np.zeros(0, np.int64)
        self._decoder: Decoder[Array] | None = None

    def do(self, speaker: Speaker) -> None:
        """Do one chunk: its pictures, then its entry in the ledger.

        Raises:
            ConfigError: the folder cannot be written.
            MediaError: bad media is an error, and this is bad; or the video cannot be opened any
                more, or has changed.
        """
        assert isinstance(speaker.told, list)
        video, start, stop = (int(str(number)) for number in speaker.told)
        decoder = self._opened(video)
        before = DecodeCounters() + decoder.counters
        rows = [row for e in self._ledger.noted([speaker.chunk]).values() for row in rows_of(e)]
        lost: list[LostRow] = []
        wanted = frames_between(self._wanted, start, stop)
        wanted = wanted[~np.isin(wanted, [row.index for row in rows])]

        def say(step: Json) -> None:
            self._ledger.note(speaker.chunk, entry_of(rows, []))
            speaker.say(step)

        watch = StepWatch(video, say, self._clock)
        for job in jobs(list(stretches(video, decoder.index, wanted)), conceals=self._conceals):
            came = len(rows)
            try:
                self._run(decoder, job, rows, watch)
            except MediaError as error:
                if self._raises:
                    raise
                found = {row.index for row in rows[came:]}
                lost += [LostRow(each, str(error)) for each in job.wanted if each not in found]
        watch.end_step()
        self._ledger.write(speaker.chunk, entry_of(rows, lost))
        cost: Json = dict(vars(decoder.counters - before))
        speaker.say({"chunk": {"decode": cost, "lost": len(lost)}})
        ways: Json = dict(self._decoders.frames())
        if ways:
            speaker.say({"frames_by": ways})
        for reason in self._decoders.reasons():
            speaker.say({"note": reason})

    def close(self) -> None:
        """Close the video."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None

    def _run(
        self, decoder: Decoder[Array], job: DecodeJob, rows: list[FrameRow], watch: StepWatch
    ) -> None:
        frames = decoder.run(job)
        while True:
            with watch.part("decode"):
                number, pixels = next(frames, (-1, None))
            if pixels is None:
                return
            with watch.part("encode"):
                file = self._pictures.encode(pixels)
            assert self._video is not None
            video = self._videos[self._video].name
            name = frame_file(self._pictures, video, decoder.index, number)
            with watch.part("write"):
                write_bytes_whole(self._ledger.folder / name, file)
            rows.append(
                FrameRow(
                    index=number,
                    pts=int(decoder.index.pts[number]),
                    height=pixels.shape[0],
                    width=pixels.shape[1],
                    is_concealed=number in decoder.concealed,
                    file=name,
                    num_bytes=len(file),
                )
            )
            watch.came(number)

    def _opened(self, video: int) -> Decoder[Array]:
        if self._decoder is None or self._video != video:
            self.close()
            index = reopened(self._videos[video], self._store)
            self._video, self._wanted = video, self._selection.of(index)
            self._decoder = self._decoders.open(index, FrameShape(size=self._pictures.size))
        return self._decoder
