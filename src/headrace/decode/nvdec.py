"""NVDEC: FFmpeg's decoders on an NVIDIA GPU, whose frames come down to the CPU.

Not yet run on a GPU by us. What FFmpeg and this file do there was run with a stand-in for the
driver: tests/decode/test_nvdec.py. So one picture of each file is held against the CPU's.
"""

from __future__ import annotations

import av
import numpy as np
from av.codec.hwaccel import HWAccel
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType, VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from headrace.decode.planes import rows_of
from headrace.errors import BackendError
from headrace.video.container import describe
from headrace.video.packets import (
    CODECS_MADE_ANEW,
    VideoPacket,
    frame_alone,
    new_codec,
    ordinal_of,
)
from headrace.video.stream_index import StreamIndex

_PIXEL_FORMATS = ("yuv420p", "yuvj420p", "yuv420p10le")
"""What GPUs are asked for; which of them they decode depends on codec and GPU. Frames come down as
NV12 or P010, which hold the same."""


class Nvdec:
    """What a decoder of one stream needs of a GPU. Not thread-safe: one per decoder."""

    _stream: VideoStream

    def __init__(self, gpu: int, index: StreamIndex) -> None:
        """Touch no GPU yet.

        Raises:
            BackendError: GPUs do not decode such video.
        """
        info = index.info
        if info.codec not in CODECS_MADE_ANEW or info.pixel_format not in _PIXEL_FORMATS:
            raise BackendError(
                f"GPU {gpu} was asked for to decode {index.source}, which is {info.codec} in "
                f"{info.pixel_format}; GPUs are asked for {', '.join(_PIXEL_FORMATS)} in "
                f"{', '.join(sorted(CODECS_MADE_ANEW))}; leave gpu out, or encode the file anew"
            )
        self._gpu = gpu
        self._index = index
        self._converter = VideoReformatter()
        self._keyframes: dict[int, VideoPacket] = {}
        # One of two fields is no picture to hold against another.
        self._is_checked = info.is_interlaced

    def codec(self, stream: VideoStream) -> VideoCodecContext:
        """Return a new codec of the stream, on the GPU.

        All codecs of a process share the GPU's primary context, as torch does.

        Raises:
            BackendError: there is no such GPU, or FFmpeg has no such codec for it.
        """
        self._stream = stream
        self._keyframes.clear()
        # Never in software instead: FFmpeg then gives no frame at all.
        gpu = HWAccel(
            "cuda", self._gpu, allow_software_fallback=False, options={"primary_ctx": "1"}
        )
        try:
            codec = new_codec(stream, gpu)
        except av.error.FFmpegError as error:
            raise BackendError(
                f"GPU {self._gpu} was asked for to decode {self._index.source}, and FFmpeg cannot "
                f"start CUDA there: {describe(error)}; see whether nvidia-smi lists it, or leave "
                "gpu out"
            ) from error
        if not codec.is_hwaccel:
            raise BackendError(
                f"GPU {self._gpu} was asked for to decode {self._index.source}; for "
                f"{codec.name} FFmpeg has no decoder on NVIDIA GPUs; leave gpu out"
            )
        return codec

    def check(self, ordinal: int, packet: VideoPacket | None, frames: list[VideoFrame]) -> None:
        """Hold the first keyframe that comes down against the CPU's; `packet` went in before.

        It costs one picture on the CPU for each decoder. FFmpeg forgets what an odd size, or
        cropping on the left or above, cuts off: such pictures are found here, and any others.

        Raises:
            BackendError: they differ.
        """
        if self._is_checked:
            return
        if packet is not None and packet.is_keyframe:
            self._keyframes[ordinal] = packet
        for frame in frames:
            expected = self._by_cpu(frame)
            if expected is None:
                continue
            difference = _difference(self.planar(frame), expected)
            if difference:
                raise BackendError(
                    f"GPU {self._gpu} gives other pictures of {self._index.source} than the CPU: "
                    f"{difference}; leave gpu out, or encode the file anew"
                )
            self._is_checked = True
            self._keyframes.clear()
            return

    def planar(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame that came down in the pixel format that the CPU decodes into, bit by bit.

        swscale takes other paths for other formats: pixels would differ by rounding.
        """
        if frame.format.name == self._index.info.pixel_format:
            return frame
        planar = self._converter.reformat(frame, format=self._index.info.pixel_format, threads=1)
        # reformat names another matrix of the same numbers.
        planar.colorspace = frame.colorspace
        planar.color_range = frame.color_range
        return planar

    def cannot(self) -> BackendError:
        """Return the error of a GPU that gave no frame at all where the CPU gives one."""
        info = self._index.info
        return BackendError(
            f"GPU {self._gpu} gave no frame of {self._index.source} ({info.codec} {info.profile}, "
            f"{info.width}x{info.height}), which the CPU decodes: it does not decode such video, "
            "or has no decoder left; leave gpu out, or read fewer files at a time"
        )

    def _by_cpu(self, frame: VideoFrame) -> VideoFrame | None:
        """Return what the CPU makes of a frame; None unless it is whole without any other."""
        ordinal = ordinal_of(frame)
        keyframe = None if ordinal is None else self._keyframes.pop(ordinal, None)
        if keyframe is None:
            return None
        alone = frame_alone(new_codec(self._stream), keyframe)
        if alone is None or alone.is_corrupt or alone.pict_type != PictureType.I:
            return None
        return alone


def _difference(found: VideoFrame, expected: VideoFrame) -> str:
    """Return in words how two planar pictures differ; empty where they are equal."""
    sizes = [f"{frame.width}x{frame.height} {frame.format.name}" for frame in (found, expected)]
    if sizes[0] != sizes[1]:
        return f"{sizes[0]} in place of {sizes[1]}"
    sample_bytes = (expected.format.components[0].bits + 7) // 8
    for ours, theirs in zip(found.planes, expected.planes, strict=True):
        row_bytes = ours.width * sample_bytes
        if not np.array_equal(rows_of(ours, row_bytes), rows_of(theirs, row_bytes)):
            return "other pixels"
    return ""
