"""PyNvVideoCodec as far as it is used: its import, one decoder of packets, its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import av
from av.packet import Packet

from headrace.decode.decoding import Decoding
from headrace.decode.pynvvideocodec_frames import OwnStream
from headrace.errors import BackendError, first_line
from headrace.extras import require


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
def as_backend_errors(library: Any, asked: str, decoding: Decoding) -> Iterator[None]:
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

    def __init__(self, library: Any, codec: str, gpu: int, order: OwnStream) -> None:
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
