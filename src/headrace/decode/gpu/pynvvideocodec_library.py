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
    """The CUDA stream of one decoder, on which frames are written and copied.

    So a copy runs after its frame is decoded and before the next call overwrites it, without a host
    wait. On the default stream the library would wait for all work there, including a model's.
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
        # Frames are read on the default stream, or on a stream synchronized with it.
        copy.record_stream(self._default)
        return copy

    def wait(self) -> None:
        """Return when all work of the stream is complete."""
        self._stream.synchronize()


def rows_tensor_of(frame: Any) -> torch.Tensor:
    """Return a decoded frame without a copy: [H * 3 / 2, W], the rows of NV12 or P016.

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

    PyAV does not expose the chroma location, which swscale follows. A frame converted by swscale
    keeps it, so frames copied to the CPU are written into a converted FFmpeg frame.
    """

    _rows: VideoFrame
    _row_bytes: int
    _planar: PlanarConverter

    def __init__(self, gpu: int) -> None:
        """Start without color properties."""
        self.shape: tuple[int, int] | None = None
        """Shape of the rows; None until `learn` was called."""
        self._matrix = self._range = 0
        # PyTorch's context, current where frames are on the GPU. In PyAV since 17.
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
        """Return a copy of rows of `shape` in the CPU decoder's pixel format."""
        height = 0
        for plane in self._rows.planes:
            target = rows_of(plane, self._row_bytes)
            target[:] = rows[height : height + len(target)].view(np.uint8)
            height += len(target)
        return self._planar.convert(self._rows)

    def wrap(self, rows: torch.Tensor) -> VideoFrame:
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
                "the backend pynvvideocodec is installed but cannot be imported "
                f"({first_line(error)[:200]}): even to decode, it needs the encoder of "
                "NVIDIA's driver (libnvidia-encode.so.1, NVENC 12.1 or later); give a container "
                "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video, install a newer driver, or "
                "leave backend out"
            ) from error
    return PyNvVideoCodec


def errors_of(library: Any) -> tuple[type[Exception], ...]:
    """Return the library's exceptions: its own, which are not RuntimeErrors, and pybind11's."""
    kinds = library.PyNvVCException, library.PyNvVCExceptionUnsupported
    return *kinds, RuntimeError, ValueError, TypeError, AttributeError


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
        message = " ".join(str(error).split())[:200]  # the cause is not in the first line
        raise BackendError(f"{request}: it fails: {message}; {decoding.fix}") from error


class LibraryDecoder:
    """One decoder of the library with its CUDA stream. Not thread-safe.

    It raises `errors_of(library)`. It takes the stream's parameters from packets only.
    """

    def __init__(self, library: Any, codec: str, gpu: int, order: DecoderStream) -> None:
        """Start the decoder.

        Args:
            library: The module.
            codec: The library's name of the codec.
            gpu: Index of the GPU, with CUDA started: on a CUDA failure the library ends the
                process without an error.
            order: The CUDA stream on that GPU.
        """
        self.library = library
        """The module."""
        self.order = order
        """The CUDA stream."""
        self._has_packets = False
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

        `time` is the pts of the packet's frame, which this or a later call returns.
        """
        self._has_packets = True
        data = self.library.PacketData()
        data.bsl_data, data.bsl, data.pts = packet.buffer_ptr, packet.buffer_size, time
        frames: list[Any] = self._decoder.Decode(data)
        return frames

    def end(self) -> list[Any]:
        """Send the end of the stream; return the remaining frames."""
        if not self._has_packets:
            return []
        self._has_packets = False
        data = self.library.PacketData()
        data.decode_flag = int(self.library.VideoPacketFlag.ENDOFSTREAM)
        frames: list[Any] = self._decoder.Decode(data)
        return frames

    def flush_buffers(self) -> None:
        """Drop the stream's state: the next packet may be another stream's."""
        self.end()
