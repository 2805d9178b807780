"""NVDEC: FFmpeg's decoders on an NVIDIA GPU, whose frames come down to the CPU.

Not yet run on a GPU by us: what is tested without one is what it refuses, and that frames which
came down become the very planes that the CPU decodes into.
"""

import av
from av.codec.hwaccel import HWAccel
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from headrace.errors import BackendError
from headrace.video.container import describe
from headrace.video.packets import CODECS_MADE_ANEW, new_codec
from headrace.video.stream_index import StreamIndex

_PIXEL_FORMATS = ("yuv420p", "yuvj420p", "yuv420p10le")
"""What GPUs are asked for; which of them they decode depends on codec and GPU. Frames come down as
NV12 or P010, which hold the same."""


class Nvdec:
    """What a decoder of one stream needs of a GPU. Not thread-safe: one per decoder."""

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

    def codec(self, stream: VideoStream) -> VideoCodecContext:
        """Return a new codec of the stream, on the GPU.

        All codecs of a process share the GPU's primary context, as torch does.

        Raises:
            BackendError: there is no such GPU, or FFmpeg has no such codec for it.
        """
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

    def planar(self, frame: VideoFrame) -> VideoFrame:
        """Return a frame that came down in the pixel format that the CPU decodes into, bit by bit.

        swscale takes other paths for other formats: pixels would differ by rounding.
        """
        if frame.format.name == self._index.info.pixel_format:
            return frame
        return self._converter.reformat(frame, format=self._index.info.pixel_format, threads=1)

    def cannot(self) -> BackendError:
        """Return the error of a GPU that gave no frame at all."""
        info = self._index.info
        return BackendError(
            f"GPU {self._gpu} gave no frame of {self._index.source} ({info.codec} {info.profile}, "
            f"{info.width}x{info.height}): it may not decode such video, have no decoder left, "
            "or the file is damaged; see what the CPU says of it, or read fewer files at a time"
        )
