"""The torchcodec backend: its pictures of the frames of our index, on the CPU or on a GPU.

What it adds to torchcodec: frames are those of our index, or an error; and as torchcodec tells of
no damage (FFmpeg's guess comes, unmarked), each GOP is decoded plainly by PyAV once in a process
before it is believed, and one picture of it held against PyAV's (`tolerance`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import Any, Final

import numpy as np
from av.video.frame import VideoFrame

from headrace.decode.capabilities import Capabilities, PixelDifference
from headrace.decode.converter import ArrayConverter, Conversion
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import Array, Out
from headrace.decode.gop_verification import look_through
from headrace.decode.nvdec import context_of_torch
from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.errors import BackendError, DecodeError, first_line
from headrace.extras import command_for, require
from headrace.runtime.fork_safety import check_cuda_after_fork
from headrace.video.container import open_container
from headrace.video.ffmpeg_errors import at_the_door
from headrace.video.frame_format import FrameFormat
from headrace.video.frame_mappings import to_frame_mappings
from headrace.video.frame_status import VerifiedSpan
from headrace.video.stream_index import StreamIndex

CAPABILITIES = Capabilities(
    # Where frames were found again after a seek; of MPEG's streams others come, with right times.
    containers=("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "flv", "ogg", "ivf"),
    goes_by_packets=True,
    # It turns a picture, and does not mirror it.
    has_mirrored=False,
    pixel_types=("uint8",),
)
"""What torchcodec is asked for, on the CPU and on GPUs; which codecs, its FFmpeg decides."""

_FROM_BELOW = (RuntimeError, ValueError, IndexError, OSError, NotImplementedError)
"""What torchcodec raises."""


def check_installed() -> None:
    """Do nothing if torchcodec can be used here; imports it.

    Raises:
        BackendError: it is not installed, does not fit this PyTorch, or finds no FFmpeg.
    """
    with require("torchcodec", "the backend torchcodec", "leave backend out"):
        try:
            import torchcodec
            import torchcodec.decoders
        except (OSError, RuntimeError, AttributeError) as error:
            raise BackendError(
                "the backend torchcodec that is installed does not fit this PyTorch "
                f"({_line(error)}); {command_for('torchcodec')}, or leave backend out"
            ) from error
    if torchcodec.ffmpeg_major_version is None:
        import torch

        raise BackendError(
            "the backend torchcodec cannot load FFmpeg's shared libraries, which do not come with "
            "it (version 4 to 9; on Debian: apt install ffmpeg), or it is for another PyTorch than "
            f"{torch.__version__}; install what is missing, or leave backend out"
        )


class TorchcodecFile:
    """A file that torchcodec holds open, with its codec. For one thread."""

    def __init__(self, index: StreamIndex, decoding: DecoderConfig) -> None:
        """Open it.

        Cost: 2 to 15 ms, and 5 microseconds for each frame of the index.

        Raises:
            BackendError: it cannot be opened that way; or it is to be on a GPU, and this process
                was forked from one that uses CUDA.
            OpenError: it is gone.
        """
        check_installed()
        from torchcodec.decoders import VideoDecoder

        self._index = index
        self._asked = f"torchcodec was asked for to decode {index.source} on {decoding.device}"
        self._is_on_gpu = decoding.gpu is not None
        if self._is_on_gpu:
            check_cuda_after_fork(self._asked)
        container, stream = open_container(index.source)
        number = stream.index
        container.close()
        try:
            with nullcontext() if decoding.gpu is None else context_of_torch(decoding.gpu):
                self._decoder: Any = VideoDecoder(
                    index.source.for_ffmpeg(),
                    stream_index=number,
                    dimension_order="NHWC",
                    num_ffmpeg_threads=1,
                    device=decoding.device,
                    custom_frame_mappings=to_frame_mappings(index),
                )
        except (*_FROM_BELOW, AssertionError) as error:
            found = "and CUDA cannot start there" if self._is_on_gpu else "and cannot"
            cure = "leave device out, or backend" if self._is_on_gpu else "leave backend out"
            raise BackendError(f"{self._asked}, {found}: {_line(error)}; {cure}") from error
        self._needs_check = self._is_on_gpu

    def picture(self, number: int) -> Array:
        """Return frame `number` of the index, uint8 [H, W, 3], RGB, turned, in memory of its own.

        Raises:
            BackendError: torchcodec gives none, or another frame; or decodes on the CPU instead.
        """
        index = self._index
        try:
            frame = self._decoder.get_frame_at(number)
        except _FROM_BELOW as error:
            raise BackendError(
                f"{self._asked}, and gives no frame {number}, which PyAV decodes: {_line(error)}; "
                "leave backend out"
            ) from error
        ticks = round(frame.pts_seconds / index.info.time_base)
        if ticks != int(index.pts[number]):
            raise BackendError(
                f"{self._asked}; for frame {number}, which is shown at "
                f"{index.seconds(number):.6f} s, it gives what is shown at "
                f"{frame.pts_seconds:.6f} s; leave backend out, and PyAV decodes it"
            )
        if self._needs_check:
            self._needs_check = False
            if self._decoder.cpu_fallback:
                raise BackendError(
                    f"{self._asked}, and decodes on the CPU instead "
                    f"({self._decoder.cpu_fallback}); leave device or backend out"
                )
        pixels: Array = np.asarray(frame.data.cpu() if self._is_on_gpu else frame.data)
        return pixels


def _line(error: BaseException) -> str:
    return first_line(error)[:200]


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

    def __init__(
        self, index: StreamIndex, shape: FrameFormat | None, decoding: DecoderConfig
    ) -> None:
        """Open nothing yet."""
        self.index = index
        """The frames there are."""
        self.shape = shape or FrameFormat()
        """What each frame is made into."""
        self._decoding = decoding
        self.counters = DecodeCounters()
        """What decoding cost so far, that of checking included."""
        self._converter = ArrayConverter(self.shape, index.info.orientation, str(index.source))
        self._plain = ArrayConverter(FrameFormat(), index.info.orientation, str(index.source))
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
        known = index.verdicts.sound.get(key, VerifiedSpan(first))
        if known.is_all or numbers[-1] < known.stop:
            return known.stop
        # A GOP may be a whole film: no more than is asked for, and twice as much each time.
        least = max(_LEAST, 2 * (known.stop - first))
        frames = range(first, min(end, max(numbers[-1] + 1, first + least)))
        plain = look_through(index, frames, numbers[0], self.counters)
        if plain is not None:
            self._check_same(numbers[0], plain)
            known = VerifiedSpan(frames.stop)
        else:
            known = VerifiedSpan(known.stop, is_all=True)
        index.verdicts.sound[key] = known
        return known.stop

    def _check_same(self, number: int, plain: VideoFrame) -> None:
        """Raise BackendError where torchcodec's picture is not PyAV's."""
        expected = self._plain.convert(plain, None)
        found = self._plain.convert(self._frame(self._picture(number)), None)
        apart = PixelDifference.between(found, expected)
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
