"""NVDEC: FFmpeg's decoders on an NVIDIA GPU, whose frames come down to the CPU or stay there.

Not yet run on a GPU by us. What FFmpeg and this file do there was run with a stand-in for the
driver: tests/decode/test_nvdec.py. What PyTorch does with frames that stay was run on the CPU only.
So each decoder holds a picture against the CPU's. `pytest -k gpu` does all of it on a GPU.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import av
import numpy as np
from av.codec.hwaccel import HWAccel, hwdevices_available
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType, VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from headrace.decode.capabilities import Capabilities
from headrace.decode.protocol import DecodeCounters
from headrace.decode.resting_codecs import RESTING
from headrace.errors import BackendError
from headrace.runtime.forks import check_cuda_after_fork
from headrace.video.codec import (
    CODECS_MADE_ANEW,
    VideoPacket,
    facts_of,
    frame_alone,
    new_codec,
    ordinal_of,
)
from headrace.video.door import describe
from headrace.video.planes import rows_of
from headrace.video.stream_index import StreamIndex

CAPABILITIES = Capabilities(
    # FFmpeg decodes AV1 by libdav1d; its own decoder does not start on NVDEC through PyAV 18.1.
    codecs=tuple(sorted(CODECS_MADE_ANEW - {"av1"})),
    # Frames come down as NV12 or P010, which hold the same.
    pixel_formats=("yuv420p", "yuvj420p", "yuv420p10le"),
    # Of two fields one is no picture to hold against the CPU's.
    has_interlaced=False,
    can_keep_on_device=True,
)
"""What GPUs are asked for; which of it they decode, and up to which size, depends on the GPU."""

_GO_ON = frozenset(["h264", "hevc"])
"""Codecs that forget a stream when they are flushed, so that they go on with another."""
_SURFACES = 20
"""Pictures that a codec holds at most: the 16 that one may refer to, and those FFmpeg adds."""

_DECODER = "nvcuvid.dll" if sys.platform == "win32" else "libnvcuvid.so.1"


class Nvdec:
    """What a decoder of one stream needs of a GPU. Not thread-safe: one per decoder."""

    _stream: VideoStream

    def __init__(
        self,
        gpu: int,
        index: StreamIndex,
        *,
        keeps_frames: bool = False,
        counters: DecodeCounters | None = None,
    ) -> None:
        """Touch no GPU yet.

        Args:
            gpu: Its number, as torch counts those that CUDA_VISIBLE_DEVICES leaves.
            index: The frames there are, of what GPUs are asked for: see `CAPABILITIES`.
            keeps_frames: Whether frames stay on the GPU; else they come down.
            counters: Told of the bytes that come down; None: some of its own.
        """
        self._gpu = gpu
        self._keeps_frames = keeps_frames
        self._index = index
        self._converter = VideoReformatter()
        self._keyframes: dict[int, VideoPacket] = {}
        self._needs_check = True
        self._counters = DecodeCounters() if counters is None else counters

    @property
    def brought_down_bytes(self) -> int:
        """Bytes of the frames that came down so far, as they lie in main memory."""
        return self._counters.brought_down_bytes

    @property
    def _asked(self) -> str:
        return f"GPU {self._gpu} was asked for to decode {self._index.source}"

    def codec(self, stream: VideoStream) -> VideoCodecContext:
        """Return a codec of the stream, on the GPU: a new one, or one that rests and fits.

        Raises:
            BackendError: there is no such GPU, or FFmpeg has no such codec for it; or this process
                was forked from one that uses CUDA.
        """
        check_cuda_after_fork(self._asked)
        self._stream = stream
        self._keyframes.clear()
        resting = RESTING.take(self._look(stream))
        return self._new_codec(stream) if resting is None else resting

    def let_rest(self, codec: VideoCodecContext, *, is_sound: bool) -> None:
        """Take back a codec that this one made, for whoever next wants such a one.

        Args:
            codec: It.
            is_sound: Whether it works. One that does not is not kept, nor are those that rest: they
                may hold the memory that it lacked.
        """
        if not is_sound:
            RESTING.release()
        elif codec.is_open and self._goes_on(codec):
            info = self._index.info
            # 4:2:0, of up to 10 bits in two bytes.
            num_bytes = _SURFACES * info.height * info.width * 3 // 2 * 2
            RESTING.put(self._look(self._stream), codec, num_bytes)

    def _goes_on(self, codec: VideoCodecContext) -> bool:
        """Return whether a codec is the same at the end of the stream as one that is new."""
        told = _in_short(self._index.told.tobytes())
        is_told_more = told not in (b"", _in_short(codec.extradata or b""))
        return self._index.info.codec in _GO_ON and not (is_told_more or self._index.is_told_once)

    def _look(self, stream: VideoStream) -> tuple[object, ...]:
        return self._gpu, self._keeps_frames, facts_of(stream)

    def _new_codec(self, stream: VideoStream) -> VideoCodecContext:
        if "cuda" not in hwdevices_available():
            raise BackendError(
                f"{self._asked}, and PyAV's FFmpeg is built without CUDA; install PyAV as a wheel, "
                "or leave gpu out"
            )
        try:
            with context_of_torch(self._gpu):
                self._check_decoder()
                # Never in software instead: FFmpeg then gives no frame at all.
                gpu = HWAccel(
                    "cuda",
                    self._gpu,
                    allow_software_fallback=False,
                    # The latter PyAV would set for frames that stay; FFmpeg takes one of the two.
                    options={"current_ctx": "1", "primary_ctx": "0"},
                    is_hw_owned=self._keeps_frames,
                )
                codec = new_codec(stream, gpu)
        except BackendError:
            raise
        except (av.error.FFmpegError, RuntimeError, AssertionError) as error:
            raise BackendError(
                f"{self._asked}, and CUDA cannot start there: {_reason(error)}; or leave gpu out"
            ) from error
        if not codec.is_hwaccel:
            raise BackendError(
                f"{self._asked}; for {codec.name} FFmpeg has no decoder on NVIDIA GPUs; "
                "leave gpu out"
            )
        return codec

    def _check_decoder(self) -> None:
        """Do nothing if the driver has its decoder, which is a library of its own: BackendError."""
        try:
            ctypes.CDLL(_DECODER)
        except OSError as error:
            raise BackendError(
                f"{self._asked}, and its driver has no decoder ({_DECODER} is not found); give a "
                "container NVIDIA_DRIVER_CAPABILITIES=compute,video, or leave gpu out"
            ) from error

    def check(self, ordinal: int, packet: VideoPacket | None, frames: list[VideoFrame]) -> None:
        """Check frames that came out after `packet` went in.

        All must be as large as the stream began. FFmpeg rounds odd sizes up, and does not always
        follow a stream that changes its size. And the first keyframe must be the CPU's, bit by bit:
        FFmpeg forgets what is cropped on the left or above, and codecs before H.264 leave rounding
        to the decoder. It costs one picture on the CPU for each decoder; that one is brought down
        also where frames stay.

        Raises:
            BackendError: they are not.
        """
        info = self._index.info
        for frame in frames:
            self._counters.brought_down_bytes += 0 if _is_on_gpu(frame) else _bytes_of(frame)
            if (frame.width, frame.height) != (info.width, info.height):
                raise BackendError(
                    f"GPU {self._gpu} gives pictures of {frame.width}x{frame.height} of "
                    f"{self._index.source}, which begins with {info.width}x{info.height}: sizes "
                    "that are odd or change, and cropping on the left or above, are for the CPU; "
                    "leave gpu out"
                )
        if not self._needs_check:
            return
        if packet is not None and packet.is_keyframe:
            self._keyframes[ordinal] = packet
        for frame in frames:
            expected = self._by_cpu(frame)
            if expected is None:
                continue
            if not _is_same(self.planar(frame), expected):
                raise BackendError(
                    f"GPU {self._gpu} gives other pixels of {self._index.source} than the CPU; "
                    "leave gpu out, or encode the file anew"
                )
            self._needs_check = False
            self._keyframes.clear()
            return

    def delivered(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame as converters take it: on the GPU, or in the CPU's pixel format."""
        return frame if self._keeps_frames else self.planar(frame)

    def planar(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame on the CPU, in the pixel format that it decodes into, bit by bit.

        swscale takes other paths for other formats: pixels would differ by rounding.
        """
        if frame.format.name == self._index.info.pixel_format:
            return frame
        planar = self._converter.reformat(frame, format=self._index.info.pixel_format, threads=1)
        self._counters.brought_down_bytes += _bytes_of(planar) if _is_on_gpu(frame) else 0
        # reformat names another matrix of the same numbers.
        planar.colorspace = frame.colorspace
        planar.color_range = frame.color_range
        return planar

    def failed(self, number: int) -> BackendError:
        """Return the error of a GPU that gave no frame `number`, where the CPU gives one."""
        info = self._index.info
        return BackendError(
            f"GPU {self._gpu} gave no frame {number} of {self._index.source} ({info.codec} "
            f"{info.profile}, {info.width}x{info.height}), which the CPU decodes: the GPU does not "
            "decode such video, or has no decoder or memory left; leave gpu out, or read fewer "
            "files at a time"
        )

    def _by_cpu(self, frame: VideoFrame) -> VideoFrame | None:
        """Return what the CPU makes of a frame; None unless it is whole without any other."""
        ordinal = ordinal_of(frame)
        keyframe = self._keyframes.pop(ordinal, None)
        if keyframe is None:
            return None
        alone = frame_alone(new_codec(self._stream), keyframe)
        if alone is None or alone.is_corrupt or alone.pict_type != PictureType.I:
            return None
        return alone


@contextmanager
def context_of_torch(gpu: int) -> Iterator[None]:
    """Make torch's CUDA context of a GPU the one of this thread, for FFmpeg to decode in.

    FFmpeg itself does not join a context that torch began (PyAV-Org/PyAV#2339), and one of its own
    for each file takes some 400 MB of the GPU (meta-pytorch/torchcodec#263).
    """
    import torch

    with torch.cuda.device(gpu):
        torch.zeros(1, device="cuda")
        yield


def _reason(error: Exception) -> str:
    """Return why CUDA did not start, and what to do."""
    import torch

    from headrace.runtime.gpus import why_no_gpu

    count = torch.cuda.device_count()
    if not count:
        return why_no_gpu()
    said = describe(error) if isinstance(error, av.error.FFmpegError) else str(error)
    first_line = said.partition("\n")[0]
    return f"{first_line}; give a number from 0 to {count - 1}"


def _in_short(sets: bytes) -> bytes:
    """Return parameter sets with the short form of what stands before each."""
    return sets.replace(b"\0\0\0\1", b"\0\0\1")


def _is_on_gpu(frame: VideoFrame) -> bool:
    return frame.format.name == "cuda"


def _bytes_of(frame: VideoFrame) -> int:
    return sum(plane.buffer_size for plane in frame.planes)


def _is_same(found: VideoFrame, expected: VideoFrame) -> bool:
    """Return whether planar pictures of one format are equal."""
    sample_bytes = (expected.format.components[0].bits + 7) // 8
    return all(
        np.array_equal(
            rows_of(ours, ours.width * sample_bytes), rows_of(theirs, theirs.width * sample_bytes)
        )
        for ours, theirs in zip(found.planes, expected.planes, strict=True)
    )
