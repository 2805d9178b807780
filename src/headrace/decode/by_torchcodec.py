"""The torchcodec backend: its pictures of the frames of our index, on the CPU or on a GPU.

What it adds to torchcodec: frames are those of our index, or an error; and as torchcodec tells of
no damage (FFmpeg's guess comes, unmarked), each GOP is decoded plainly by PyAV once in a process
before it is believed, and one picture of it held against PyAV's (`tolerance`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import numpy as np
from av.video.frame import VideoFrame

from headrace.decode.conversion import Conversion
from headrace.decode.convert import FrameConverter
from headrace.decode.decoding import Decoding
from headrace.decode.pixels import Array, Out
from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.decode.tolerance import Apart
from headrace.decode.torchcodec_file import TorchcodecFile
from headrace.decode.witness import look_through
from headrace.errors import BackendError, DecodeError
from headrace.video.door import at_the_door
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex
from headrace.video.verdicts import Sound

_LEAST: Final = 256
"""Frames of a GOP that are looked through at once, if it has so many."""


class TorchcodecDecoder:
    """Decodes jobs of one stream by torchcodec: a `Decoder`. Not thread-safe: one per thread.

    Frames are made into their shape by the code that does so for PyAV, from RGB at full size. For a
    crop, `bilinear` and `bicubic` PyAV does the same; by `area` it goes there from the stored
    colours, so pictures are apart: 1.2 levels in the mean on a real clip at 224x224, up to 2.6 on
    synthetic ones that are all edges of colour. It costs the conversion of the whole picture.

    torchcodec tells neither packets nor what it decoded: frames decoded and seeks are counted by
    its rule (on within a GOP, else from the keyframe), packets and bytes are those of the check.
    """

    def __init__(self, index: StreamIndex, shape: FrameShape | None, decoding: Decoding) -> None:
        """Open nothing yet."""
        self.index = index
        """The frames there are."""
        self.shape = shape or FrameShape()
        """What each frame is made into."""
        self._decoding = decoding
        self.counters = DecodeCounters()
        """What decoding cost so far, that of checking included."""
        self._converter = FrameConverter(self.shape, index.info.orientation, str(index.source))
        self._plain = FrameConverter(FrameShape(), index.info.orientation, str(index.source))
        self._file: TorchcodecFile | None = None
        self._last: int | None = None
        """Index of the frame that came last."""

    @property
    def concealed(self) -> frozenset[int]:
        """None: torchcodec does not tell which frames are damaged."""
        return frozenset()

    def run(self, job: DecodeJob, out: Out[Array] | None = None) -> Iterator[tuple[int, Array]]:
        """Yield (index, frame) for every wanted frame: see `Decoder.run`.

        Raises:
            BackendError: the file is none for torchcodec; or concealing is asked for.
        """
        try:
            with at_the_door(DecodeError, self.index.source, "decode"):
                yield from self._run(job, out)
        except BackendError:
            self.close()  # The next job begins anew.
            raise

    def _run(self, job: DecodeJob, out: Out[Array] | None) -> Iterator[tuple[int, Array]]:
        index = self.index
        index.check(job.wanted[0])
        index.check(job.wanted[-1])
        index.check_unchanged(job.wanted[0])
        if job.conceals:
            raise BackendError(
                f"torchcodec was asked for to decode {index.source} and to conceal damage, which "
                "it does not tell; leave backend out, or give another on_error"
            )
        lost: list[int] = []
        conversion: Conversion[Array] = Conversion(self._converter, job.wanted, out)
        for gop, found in groupby(job.wanted, index.gop_of):
            numbers = list(found)
            stop = self._sound_stop(gop, numbers)
            lost += [number for number in numbers if number >= stop]
            for number in (number for number in numbers if number < stop):
                pixels = conversion.pixels(number, self._frame(self._picture(number)))
                if pixels is not None:
                    self.counters.frames_delivered += 1
                    yield number, pixels
        missing = sorted({*lost, *conversion.refused})
        if missing:
            first = next(iter(conversion.refused.values()), None)
            error = first or self._damaged(lost[0])
            raise DecodeError(str(error), source=error.source, pts=error.pts, missing=missing)

    def rest(self) -> None:
        """Release the file too: some 10 MB at 720p, and torchcodec gives up both or neither."""
        self.close()

    def close(self) -> None:
        """Release the file and the codec."""
        self._file = None
        self._last = None

    def _sound_stop(self, gop: int, numbers: Sequence[int]) -> int:
        """Return the index behind the last frame of a GOP, of those wanted, without a fault before.

        Of what is looked through, frame `numbers[0]` is held against PyAV's.

        Raises:
            BackendError: the two are not the same picture.
        """
        index, key = self.index, (self._decoding.device, gop)
        first, end = index.gop_range(gop)
        known = index.verdicts.sound.get(key, Sound(first))
        if known.is_all or numbers[-1] < known.stop:
            return known.stop
        # A GOP may be a whole film: no more than is asked for, and twice as much each time.
        least = max(_LEAST, 2 * (known.stop - first))
        frames = range(first, min(end, max(numbers[-1] + 1, first + least)))
        plain = look_through(index, frames, numbers[0], self.counters)
        if plain is not None:
            self._check_same(numbers[0], plain)
            known = Sound(frames.stop)
        else:
            known = Sound(known.stop, is_all=True)
        index.verdicts.sound[key] = known
        return known.stop

    def _check_same(self, number: int, plain: VideoFrame) -> None:
        """Raise BackendError where torchcodec's picture is not PyAV's."""
        expected = self._plain.convert(plain, None)
        found = self._plain.convert(self._frame(self._picture(number)), None)
        apart = Apart.between(found, expected)
        if apart is None or not apart.is_same:
            said = "another size" if apart is None else f"{apart.mean:.1f} levels apart in the mean"
            raise BackendError(
                f"torchcodec gives another picture of frame {number} of {self.index.source} than "
                f"PyAV ({said}); leave backend out, and PyAV decodes it"
            )

    def _picture(self, number: int) -> Array:
        if self._file is None:
            self._file = TorchcodecFile(self.index, self._decoding)
            self.counters.opens += 1
        first, _ = self.index.gop_range(self.index.gop_of(number))
        last, self._last = self._last, number
        picture = self._file.picture(number)
        self.counters.brought_down_bytes += picture.nbytes if self._decoding.gpu is not None else 0
        before = first - 1 if last is None or not first - 1 <= last < number else last
        self.counters.frames_decoded += number - before
        self.counters.seeks += before != last
        return picture

    def _frame(self, picture: Array) -> VideoFrame:
        """Return a picture as FFmpeg's frame, as it was stored: whoever takes it turns it."""
        stored = self.index.info.orientation.stored(picture)
        return VideoFrame.from_numpy_buffer(np.ascontiguousarray(stored), format="rgb24")

    def _damaged(self, number: int) -> DecodeError:
        index = self.index
        first, stop = index.gop_range(index.gop_of(number))
        return DecodeError(
            f"frame {number} of {index.source} cannot be decoded by torchcodec "
            f"(at {index.seconds(number):.3f} s): between frames {first} and {stop - 1} the file "
            "is damaged, and torchcodec does not tell where; skip such frames, or leave backend "
            "out: PyAV decodes those that are whole",
            source=str(index.source),
            pts=int(index.pts[number]),
        )
