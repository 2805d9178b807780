"""Pictures from files in batches, as frames of a video come."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headrace.decode.image_files import ImageFile, read_image
from headrace.decode.protocol import DecodeCounters, OnError
from headrace.errors import MediaError, OpenError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.frame_loss import FrameLoss
from headrace.video.frames import FrameBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class PictureBatch(FrameBatch):
    """Pictures of one size that follow each other; `index` is the place among all, times are 0."""

    pictures: tuple[ImageFile, ...]
    """The file of each."""


class PictureReader:
    """Reads pictures, in order: iterate it for PictureBatch after PictureBatch.

    A batch holds up to `batch_size` pictures; a new one begins where the size changes.
    """

    threads = 1
    """That which iterates it."""

    def __init__(
        self,
        pictures: Sequence[ImageFile],
        *,
        batch_size: int,
        stride: int = 1,
        max_batches: int | None = None,
        on_error: OnError = "raise",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Plan the reading; nothing is opened yet.

        Args:
            pictures: What to read, in this order.
            batch_size: Pictures in a batch, at most.
            stride: 1 means every picture.
            max_batches: Where to stop; None means at the last picture.
            on_error: Whether a bad picture ends the reading, behind the good ones before it, or is
                left out and listed in `losses`.
            clock: What measures how long reading takes.
        """
        places = range(0, len(pictures), stride)
        self._batches = _batches([(k, pictures[k]) for k in places], batch_size)[:max_batches]
        self._on_error = on_error
        self._clock = clock
        self.losses: list[FrameLoss] = []
        """What was left out so far, in order."""
        self.counters = DecodeCounters()
        """What reading cost so far."""

    @property
    def frames_planned(self) -> int:
        """Pictures that will be delivered, damage aside."""
        return sum(map(len, self._batches))

    def __iter__(self) -> Iterator[PictureBatch]:
        """Yield the pictures.

        Raises:
            MediaError: at the place of a bad picture, when `on_error` is `raise`.
        """
        for planned in self._batches:
            read, error, began_ns = [], None, self._clock.now_ns()
            for place, picture in planned:
                try:
                    read.append((place, picture, self._read(picture)))
                except MediaError as bad:
                    if self._on_error == "raise":
                        error = bad
                        break
                    self.losses.append(FrameLoss(source=bad.source, index=None, cause=str(bad)))
            if read:
                places, pictures, pixels = zip(*read, strict=True)
                yield PictureBatch(
                    frames=np.stack(pixels),
                    video=0,
                    index=np.array(places),
                    pts=np.zeros(len(places), np.int64),
                    time_base=Fraction(1),
                    decode_seconds=(self._clock.now_ns() - began_ns) / 1e9,
                    pictures=pictures,
                )
            if error is not None:
                raise error

    def _read(self, picture: ImageFile) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        pixels = read_image(picture.path)
        if pixels.shape[:2] != picture.size:
            raise OpenError(
                f"cannot read the picture {picture.path}: it has another size than when the run "
                "began; leave it as it is until the run ends",
                source=str(picture.path),
            )
        with suppress(OSError):  # it was read, and is gone
            self.counters.bytes_read += picture.path.stat().st_size
        self.counters.opens += 1
        self.counters.frames_decoded += 1
        self.counters.frames_delivered += 1
        return pixels


def _batches(
    pictures: Sequence[tuple[int, ImageFile]], batch_size: int
) -> list[list[tuple[int, ImageFile]]]:
    batches: list[list[tuple[int, ImageFile]]] = []
    for place, picture in pictures:
        last = batches[-1] if batches else []
        if last and len(last) < batch_size and last[-1][1].size == picture.size:
            last.append((place, picture))
        else:
            batches.append([(place, picture)])
    return batches
