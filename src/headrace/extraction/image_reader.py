"""Reader of image files in batches, with the interface of `FrameReader`."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

import numpy as np

from headrace.decode.image_files import ImageFile, read_image
from headrace.decode.protocol import DecodeCounters, OnError
from headrace.errors import MediaError, OpenError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.frames import FrameBatch, FrameLoss


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageBatch(FrameBatch):
    """Consecutive images of one size; `index` is the position among all images, times are 0."""

    pictures: tuple[ImageFile, ...]
    """File of each image."""


class ImageReader:
    """Reads images in order: an iterable of `ImageBatch`.

    A batch holds up to `batch_size` images; a change of size starts a new batch.
    """

    threads = 1
    """Threads: it reads in the iterating thread."""

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
        """Plan the batches; open nothing yet.

        Args:
            pictures: Image files, in reading order.
            batch_size: Max images in a batch.
            stride: 1 means every image.
            max_batches: Batches to read; None: all.
            on_error: `raise`: an error at the first bad image, after the good images before it;
                `skip`: bad images are left out and listed in `losses`.
            clock: Clock for the timings.
        """
        selected = [(k, pictures[k]) for k in range(0, len(pictures), stride)]
        runs = [list(run) for _, run in groupby(selected, lambda picture: picture[1].size)]
        batches = [run[k : k + batch_size] for run in runs for k in range(0, len(run), batch_size)]
        self._batches = batches[:max_batches]
        self._on_error = on_error
        self._clock = clock
        self.losses: list[FrameLoss] = []
        """Images left out so far, in order."""
        self.counters = DecodeCounters()
        """Counters so far."""

    @property
    def frames_planned(self) -> int:
        """Number of images to deliver, unless some are damaged."""
        return sum(map(len, self._batches))

    def __iter__(self) -> Iterator[ImageBatch]:
        """Yield the batches.

        Raises:
            MediaError: at a bad image, with `on_error` "raise".
        """
        for batch in self._batches:
            images, error, began_ns = [], None, self._clock.now_ns()
            for position, picture in batch:
                try:
                    images.append((position, picture, self._read(picture)))
                except MediaError as fault:
                    if self._on_error == "raise":
                        error = fault
                        break
                    self.losses.append(FrameLoss(source=fault.source, index=None, cause=str(fault)))
            if images:
                positions, pictures, pixels = zip(*images, strict=True)
                yield ImageBatch(
                    frames=np.stack(pixels),
                    video=0,
                    index=np.array(positions),
                    pts=np.zeros(len(positions), np.int64),
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
                f"cannot read the image {picture.path}: its size has changed since the run "
                "started; do not modify it before the run ends",
                source=str(picture.path),
            )
        with suppress(OSError):  # the file may have been removed after reading
            self.counters.bytes_read += picture.path.stat().st_size
        self.counters.count(DecodeCounters(opens=1, frames_decoded=1, frames_delivered=1))
        return pixels
