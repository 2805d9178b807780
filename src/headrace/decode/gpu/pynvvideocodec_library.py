"""PyNvVideoCodec library: its decoder, its CUDA stream, and frames copied out of its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.yuv_to_rgb import PlanarConverter
from headrace.errors import BackendError, first_line
from headrace.extras import require
from headrace.video.content_digest import rows_of

if TYPE_CHECKING:
    import torch


_NAMES: Final = {1: "nv12", 2: "p010le"}
"""Bytes per value -> pixel format."""


class DecoderStream:
    """The CUDA stream of one decoder, which writes and copies frames on it.

    So a copy runs after its frame is decoded and before the next call overwrites it, without any
    host wait. On the default stream the library would wait for all its work, including a model's.
    """

    def __init__(self, gpu: int) -> None:
        import torch

        self._stream = torch.cuda.Stream(gpu)  # type: ignore[no-untyped-call]
        self._default = torch.cuda.default_stream(gpu)

    @property
    def handle(self) -> int:
        """The CUDA handle."""
        return int(self._stream.cuda_stream)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Run PyTorch work inside on this stream; later work on the default stream waits for it."""
        import torch

        with torch.cuda.stream(self._stream):
            yield
        self._default.wait_stream(self._stream)

    def copy(self, rows: torch.Tensor, *, stays: bool) -> torch.Tensor:
        """Return a copy of a frame: on the GPU, or on the CPU, complete on return."""
        if not stays:
            return rows.cpu()
        copy = rows.clone()
        # Read on the default stream, or on one that waits for it and that it waits for.
        copy.record_stream(self._default)
        return copy

    def wait(self) -> None:
        """Return when all work of the stream is complete."""
        self._stream.synchronize()


def rows_tensor_of(frame: Any) -> torch.Tensor:
    """Return a decoded frame in place: [H * 3 / 2, W], the rows of NV12 or P016.

    Raises:
        ValueError: it has another layout.
    """
    from torch.utils.dlpack import from_dlpack

    rows: torch.Tensor = from_dlpack(frame)
    if rows.dim() != 2 or rows.shape[0] % 3:
        raise ValueError(f"frames are {rows.dtype} {list(rows.shape)}, not rows of NV12 or P016")
    return rows


class Nv12FrameBuilder:
    """Builds video frames from rows of NV12 or P016, with the color properties of FFmpeg's frames.

    PyAV neither exposes nor sets the chroma location, which swscale follows; a frame converted by
    swscale keeps it. So frames copied to the CPU are written into a converted FFmpeg frame.
    """

    _rows: VideoFrame
    _row_bytes: int
    _planar: PlanarConverter

    def __init__(self, gpu: int) -> None:
        """Start without color properties."""
        self.shape: tuple[int, int] | None = None
        """Shape of the rows; None until `learn` was called."""
        self._matrix = self._range = 0
        # PyTorch's context, which is current where frames are on the GPU.
        # PyAV has it since 17.
        self._context = av.video.frame.CudaContext(gpu, primary_ctx=False, current_ctx=True)

    def learn(self, frame: VideoFrame | None) -> None:
        """Take size and colors from a frame that the CPU decoded; None is ignored."""
        if frame is None:
            return
        is_8_bit = frame.format.components[0].bits == 8
        self.shape = (frame.height // 2 * 3, frame.width)
        self._matrix, self._range = frame.colorspace, frame.color_range
        self._rows = VideoReformatter().reformat(frame, format=_NAMES[1 if is_8_bit else 2])
        self._rows.colorspace, self._rows.color_range = self._matrix, self._range
        self._row_bytes = frame.width if is_8_bit else 2 * frame.width
        self._planar = PlanarConverter(frame.format.name)

    def planar(self, rows: NDArray[Any]) -> VideoFrame:
        """Return rows of that `shape` as the CPU decodes frames, copied."""
        height = 0
        for plane in self._rows.planes:
            ours = rows_of(plane, self._row_bytes)
            ours[:] = rows[height : height + len(ours)].view(np.uint8)
            height += len(ours)
        return self._planar.convert(self._rows)

    def as_it_lies(self, rows: torch.Tensor) -> VideoFrame:
        """Return rows as NV12 or P010 without a copy, on the GPU or the CPU."""
        height = rows.shape[0] // 3 * 2
        frame = VideoFrame.from_dlpack(
            [rows[:height], rows[height:]],
            format=_NAMES[rows.element_size()],
            cuda_context=self._context,
        )
        frame.colorspace, frame.color_range = self._matrix, self._range
        return frame


def check_installed() -> Any:
    """Return PyNvVideoCodec; its import queries the driver's encoder version.

    Raises:
        BackendError: it is not installed; or its import fails, as without NVIDIA's driver.
    """
    with require("pynvvideocodec", "the backend pynvvideocodec", "leave backend out"):
        try:
            import PyNvVideoCodec
        except (RuntimeError, OSError, AttributeError) as error:
            raise BackendError(
                "the backend pynvvideocodec is installed, and does not start "
                f"({first_line(error)[:200]}): it asks the encoder of NVIDIA's driver for its "
                "version (libnvidia-encode.so.1, NVENC 12.1 or later), even to decode; give a "
                "container NVIDIA_DRIVER_CAPABILITIES=compute,utility,video, install a newer "
                "driver, or leave backend out"
            ) from error
    return PyNvVideoCodec


def errors_of(library: Any) -> tuple[type[Exception], ...]:
    """Return the library's exceptions: its own, which are no RuntimeError, and pybind11's."""
    own = library.PyNvVCException, library.PyNvVCExceptionUnsupported
    return *own, RuntimeError, ValueError, TypeError, AttributeError


@contextmanager
def as_backend_errors(library: Any, request: str, decoding: DecoderConfig) -> Iterator[None]:
    """Raise the library's exceptions as errors that start with the request.

    Raises:
        BackendError: the library, or FFmpeg, fails inside.
    """
    kinds: tuple[type[Exception], ...] = (*errors_of(library), av.error.FFmpegError)
    try:
        yield
    except kinds as error:
        message = " ".join(str(error).split())[:200]  # what matters is not in the first line
        raise BackendError(f"{request}: it fails: {message}; {decoding.fix}") from error


class LibraryDecoder:
    """One decoder of the library with its CUDA stream. Not thread-safe.

    It raises `errors_of` the library, and receives the stream's parameters in packets alone.
    """

    def __init__(self, library: Any, codec: str, gpu: int, order: DecoderStream) -> None:
        """Start the decoder.

        Args:
            library: The module.
            codec: The library's name of the codec.
            gpu: Number of the GPU, with CUDA started: on a CUDA failure the library ends the
                process without an error.
            order: The CUDA stream on that GPU.
        """
        self.library = library
        """The module."""
        self.order = order
        """The CUDA stream."""
        self._is_begun = False
        """Whether packets were sent since the last end of stream."""
        self._decoder = library.CreateDecoder(
            gpuid=gpu,
            codec=getattr(library.cudaVideoCodec, codec),
            cudacontext=0,  # the GPU's own, which is PyTorch's
            cudastream=order.handle,
            usedevicememory=True,
        )

    def decode(self, packet: Packet[Any], time: int) -> list[Any]:
        """Send a packet with start codes; return frames, which the next call overwrites.

        A frame has the `time` of its packet, in this or a later call.
        """
        self._is_begun = True
        given = self.library.PacketData()
        given.bsl_data, given.bsl, given.pts = packet.buffer_ptr, packet.buffer_size, time
        frames: list[Any] = self._decoder.Decode(given)
        return frames

    def end(self) -> list[Any]:
        """Send the end of the stream; return the remaining frames."""
        if not self._is_begun:
            return []
        self._is_begun = False
        given = self.library.PacketData()
        given.decode_flag = int(self.library.VideoPacketFlag.ENDOFSTREAM)
        frames: list[Any] = self._decoder.Decode(given)
        return frames

    def flush_buffers(self) -> None:
        """Drop the stream's state: the next packet may be another stream's."""
        self.end()
