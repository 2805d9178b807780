"""Frames of PyNvVideoCodec, copied out of its memory before its next call writes over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.packet import Packet
from av.video.frame import CudaContext, VideoFrame
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.yuv_to_rgb import Planar
from headrace.errors import BackendError, first_line
from headrace.extras import require
from headrace.video.content_digest import rows_of

if TYPE_CHECKING:
    import torch


_NAMES: Final = {1: "nv12", 2: "p010le"}
"""Bytes of a number -> the pixel format."""


class DecoderStream:
    """The CUDA stream of one decoder: it writes frames there, and they are copied there.

    So a copy comes behind the frame that it is of, and before what the next call writes over it,
    without anybody waiting. (On the default stream, which is the library's without it, its source
    waits for all that was asked of that stream: also for a model at work there.)
    """

    def __init__(self, gpu: int) -> None:
        import torch

        self._stream = torch.cuda.Stream(gpu)  # type: ignore[no-untyped-call]
        self._default = torch.cuda.default_stream(gpu)

    @property
    def handle(self) -> int:
        """What CUDA calls it."""
        return int(self._stream.cuda_stream)

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Have what PyTorch is asked inside done on it; what comes on the default stream waits."""
        import torch

        with torch.cuda.stream(self._stream):
            yield
        self._default.wait_stream(self._stream)

    def copy(self, picture: torch.Tensor, *, stays: bool) -> torch.Tensor:
        """Return a copy of a picture: on the GPU, or on the CPU where it is done at once."""
        if not stays:
            return picture.cpu()
        copy = picture.clone()
        # Read on the default stream, or on one that waits for it and that it waits for.
        copy.record_stream(self._default)
        return copy

    def wait(self) -> None:
        """Return when all is done that was asked of it."""
        self._stream.synchronize()


def picture_of(frame: Any) -> torch.Tensor:
    """Return a decoded frame where it lies: [H * 3 / 2, W], the rows of NV12 or P016.

    Raises:
        ValueError: it lies otherwise.
    """
    from torch.utils.dlpack import from_dlpack

    picture: torch.Tensor = from_dlpack(frame)
    if picture.dim() != 2 or picture.shape[0] % 3:
        raise ValueError(
            f"it gives pictures of {picture.dtype} {list(picture.shape)}, not rows of NV12 or P016"
        )
    return picture


class Nv12FrameBuilder:
    """Makes rows of NV12 or P016 into frames that say of their colours what FFmpeg's say.

    Where colour lies PyAV neither tells nor lets be set, and swscale goes by it; but what it makes
    of a frame says the same. So those that come down go through one that was made of FFmpeg's.
    """

    _rows: VideoFrame
    _row_bytes: int
    _planar: Planar

    def __init__(self, gpu: int) -> None:
        """Know nothing yet."""
        self.shape: tuple[int, int] | None = None
        """Of the rows; None until it has learnt them."""
        self._matrix = self._range = 0
        # PyTorch's, which is current where frames lie on the GPU.
        self._context = CudaContext(gpu, primary_ctx=False, current_ctx=True)

    def learn(self, frame: VideoFrame | None) -> None:
        """Take a frame that the CPU decoded, if it did."""
        if frame is None:
            return
        is_8_bit = frame.format.components[0].bits == 8
        self.shape = (frame.height // 2 * 3, frame.width)
        self._matrix, self._range = frame.colorspace, frame.color_range
        self._rows = VideoReformatter().reformat(frame, format=_NAMES[1 if is_8_bit else 2])
        self._rows.colorspace, self._rows.color_range = self._matrix, self._range
        self._row_bytes = frame.width if is_8_bit else 2 * frame.width
        self._planar = Planar(frame.format.name)

    def planar(self, rows: NDArray[Any]) -> VideoFrame:
        """Return rows of that `shape` as the CPU decodes frames, in memory of their own."""
        height = 0
        for plane in self._rows.planes:
            ours = rows_of(plane, self._row_bytes)
            ours[:] = rows[height : height + len(ours)].view(np.uint8)
            height += len(ours)
        return self._planar.of(self._rows)

    def as_it_lies(self, rows: torch.Tensor) -> VideoFrame:
        """Return rows as NV12 or P010, in their memory, on the GPU or the CPU."""
        height = rows.shape[0] // 3 * 2
        frame = VideoFrame.from_dlpack(
            [rows[:height], rows[height:]],
            format=_NAMES[rows.element_size()],
            cuda_context=self._context,
        )
        frame.colorspace, frame.color_range = self._matrix, self._range
        return frame


def check_installed() -> Any:
    """Return PyNvVideoCodec; its import asks the encoder of the driver for its version.

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
    """Return what it raises: its own errors are no RuntimeError, and pybind11's are besides."""
    own = library.PyNvVCException, library.PyNvVCExceptionUnsupported
    return *own, RuntimeError, ValueError, TypeError, AttributeError


@contextmanager
def as_backend_errors(library: Any, asked: str, decoding: DecoderConfig) -> Iterator[None]:
    """Raise what the library raises as an error that begins with what was asked.

    Raises:
        BackendError: the library, or FFmpeg, fails inside.
    """
    kinds: tuple[type[Exception], ...] = (*errors_of(library), av.error.FFmpegError)
    try:
        yield
    except kinds as error:
        said = " ".join(str(error).split())[:200]  # what matters is not in the first line
        raise BackendError(f"{asked}, and fails: {said}; {decoding.cure}") from error


class LibraryDecoder:
    """One decoder of the library, and the CUDA stream that it works on. Not thread-safe.

    It raises `errors_of` the library, and is told of its stream by packets alone.
    """

    def __init__(self, library: Any, codec: str, gpu: int, order: DecoderStream) -> None:
        """Start it.

        Args:
            library: The module.
            codec: What the library calls the codec.
            gpu: Number of the GPU, on which CUDA is at work: where that fails, the library ends
                the process without an error.
            order: The stream of that GPU that it works on.
        """
        self.library = library
        """The module."""
        self.order = order
        """The stream that it works on."""
        self._is_begun = False
        """Whether packets were sent since the stream last ended."""
        self._decoder = library.CreateDecoder(
            gpuid=gpu,
            codec=getattr(library.cudaVideoCodec, codec),
            cudacontext=0,  # the GPU's own, which is PyTorch's
            cudastream=order.handle,
            usedevicememory=True,
        )

    def decode(self, packet: Packet[Any], time: int) -> list[Any]:
        """Send a packet with start codes; return frames, which the next call writes over.

        The frame of the packet, now or later, has its `time`.
        """
        self._is_begun = True
        given = self.library.PacketData()
        given.bsl_data, given.bsl, given.pts = packet.buffer_ptr, packet.buffer_size, time
        frames: list[Any] = self._decoder.Decode(given)
        return frames

    def end(self) -> list[Any]:
        """Tell it that the stream ends here; return the frames that it held back."""
        if not self._is_begun:
            return []
        self._is_begun = False
        given = self.library.PacketData()
        given.decode_flag = int(self.library.VideoPacketFlag.ENDOFSTREAM)
        frames: list[Any] = self._decoder.Decode(given)
        return frames

    def flush_buffers(self) -> None:
        """Forget the stream: the next packet is of another."""
        self.end()
