"""Batches of frames of one file, as its decoder gives them."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeCounters, DecodeJob, Decoder, OnError
from headrace.errors import DecodeError
from headrace.planning.stretches import stretches
from headrace.video.frames import FrameBatch
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex


@dataclass(kw_only=True)
class FileBatches:
    """Every `stride`-th frame of one file, in order, in batches; iterate it once.

    All frames have the upright size of the first: where a stream changes its size on the way, the
    others are resized.
    """

    index: StreamIndex
    """The frames of the file."""
    batch_size: int
    """Frames in a batch; the last may hold fewer, as one with damaged frames does."""
    stride: int = 1
    """1 means every frame."""
    max_batches: int | None = None
    """Where to stop; None means at the end of the file."""
    on_error: OnError = "raise"
    """Whether damaged frames end the reading, are left out and listed, or come as FFmpeg shows them
    and are listed."""
    damaged: list[tuple[int, DecodeError]] = field(default_factory=list)
    """Damaged frames so far, and why."""
    concealed: list[int] = field(default_factory=list)
    """Damaged frames that came as FFmpeg shows them."""
    counters: DecodeCounters = field(default_factory=DecodeCounters)
    """What decoding cost so far."""

    @property
    def planned(self) -> int:
        """Frames that will be delivered, damage aside."""
        return len(self._wanted())

    def __iter__(self) -> Generator[FrameBatch, None, None]:
        """Yield the batches.

        Raises:
            DecodeError: at the first damaged frame, when `on_error` is `raise`; the good frames
                before it are delivered.
            OpenError: the file is gone.
        """
        shape = FrameShape(size=self.index.info.upright_size)
        with closing(open_decoder(self.index, shape)) as decoder:
            self.counters = decoder.counters
            wanted = self._wanted()
            for at in range(0, len(wanted), self.batch_size):
                batch, error = self._decode(decoder, wanted[at : at + self.batch_size])
                if len(batch):
                    yield batch
                if error is not None:
                    raise error

    def _wanted(self) -> NDArray[np.int64]:
        wanted = np.arange(0, len(self.index), self.stride, dtype=np.int64)
        return wanted if self.max_batches is None else wanted[: self.max_batches * self.batch_size]

    def _decode(
        self, decoder: Decoder, wanted: NDArray[np.int64]
    ) -> tuple[FrameBatch, DecodeError | None]:
        """Return the frames that decode, and the error that ends the reading, if one does."""
        frames = np.empty((len(wanted), *self.index.info.upright_size, 3), np.uint8)
        is_good = np.zeros(len(wanted), np.bool_)
        start = 0
        for stretch in stretches(0, self.index, wanted):
            stop = start + len(stretch.wanted)
            job = DecodeJob(stretch.wanted, conceals=self.on_error == "conceal")
            try:
                for index, _ in decoder.run(job, frames[start:stop]):
                    is_good[start + stretch.wanted.index(index)] = True
            except DecodeError as error:
                lost = start + np.flatnonzero(~is_good[start:stop])
                if self.on_error == "raise":
                    is_good[lost[0] :] = False
                    return self._batch(frames, wanted, is_good), error
                self.damaged += [(int(index), error) for index in wanted[lost]]
            self.concealed += sorted(decoder.concealed)
            start = stop
        return self._batch(frames, wanted, is_good), None

    def _batch(
        self, frames: NDArray[np.uint8], wanted: NDArray[np.int64], is_good: NDArray[np.bool_]
    ) -> FrameBatch:
        indices = wanted[is_good]
        return FrameBatch(
            frames=frames if is_good.all() else frames[is_good],
            video=0,
            index=indices,
            pts_seconds=self.index.seconds_of(indices),
            is_concealed=np.isin(indices, self.concealed),
        )
