"""NVIDIA's PyNvVideoCodec: its decoder of packets, fed with those that PyAV reads.

No GPU has run this. It rests on the signatures and docstrings of version 2.2.4, and on its source
(MIT licence): a packet goes in with a time, which the frame that comes of it has too; frames lie in
memory that the next call writes over; work is asked of the CUDA stream that the decoder is given.
So what comes out is held against the index here, and a picture against the CPU's in `gpu_frames`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import av
from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.frame import CudaContext, VideoFrame
from av.video.stream import VideoStream

from headrace.decode.capabilities import Capabilities
from headrace.decode.decoding import Decoding
from headrace.decode.nvdec import cuda_started
from headrace.decode.pynvvideocodec_frames import Likeness, OwnStream, picture_of
from headrace.errors import BackendError, first_line
from headrace.video.codec import Decoded, Shown, VideoPacket, frame_alone, new_codec
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch

EXTRA: Final = "pip install 'headrace[pynvvideocodec]'"
"""What adds it."""

_CODECS: Final = {"h264": "H264", "hevc": "HEVC"}
"""FFmpeg's names -> the library's."""

CAPABILITIES = Capabilities(
    codecs=tuple(_CODECS),
    pixel_formats=("yuv420p", "yuvj420p", "yuv420p10le"),
    has_interlaced=False,
    # Of an odd side it leaves out the last row or column of colour.
    has_odd_sides=False,
    # It reports no damage, and tells no frame's type: what is not certain cannot be found out.
    goes_by_packets=True,
    can_keep_on_device=True,
)
"""What GPUs are asked for by it; which of it they decode, and up to which size, depends on them."""


def check_installed() -> Any:
    """Return PyNvVideoCodec; its import asks the encoder of the driver for its version.

    Raises:
        BackendError: it is not installed; or its import fails, as without NVIDIA's driver.
    """
    try:
        import PyNvVideoCodec
    except ImportError as error:
        raise BackendError(
            f"the backend pynvvideocodec cannot be imported ({_line(error)}); {EXTRA}, or leave "
            "backend out"
        ) from error
    except (RuntimeError, OSError, AttributeError) as error:
        raise BackendError(
            f"the backend pynvvideocodec is installed, and does not start ({_line(error)}): it "
            "asks the encoder of NVIDIA's driver for its version (libnvidia-encode.so.1, NVENC "
            "12.1 or later), even to decode; give a container "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video, install a newer driver, or leave "
            "backend out"
        ) from error
    return PyNvVideoCodec


class PyNvVideoCodecs:
    """PyNvVideoCodec's codecs of one stream: `GpuCodecs`. Not thread-safe.

    The decoder is kept from one seek to the next, and told that the stream has ended between them:
    to make one takes a parser, a session of the driver and its memory.
    """

    def __init__(self, decoding: Decoding, index: StreamIndex) -> None:
        """Touch no GPU yet."""
        self._decoding = decoding
        self._index = index
        self._codec: PyNvVideoCodec | None = None

    def codec(self, stream: VideoStream) -> PyNvVideoCodec:
        """Return a codec that stands before its first packet: see `GpuCodecs.codec`."""
        if self._codec is None or self._codec.stream is not stream:
            self.rest()
            self._codec = PyNvVideoCodec(self._decoding, self._index, stream)
        else:
            self._codec.flush()
        return self._codec

    def rest(self) -> None:
        """Release the decoder, and its memory on the GPU."""
        if self._codec is not None:
            self._codec.close()
        self._codec = None


class PyNvVideoCodec:
    """One decoder of the library: a `Codec`. Not thread-safe."""

    reorder_depth = 0

    def __init__(self, decoding: Decoding, index: StreamIndex, stream: VideoStream) -> None:
        """Start it.

        Raises:
            BackendError: it cannot be: see `GpuCodecs.codec`.
        """
        self._library = library = check_installed()
        self.stream = stream
        """What its packets are of."""
        assert decoding.gpu is not None
        self._decoding = decoding
        self._index = index
        self._asked = f"{decoding.in_words} was asked for to decode {index.source}"
        self._sent: dict[int, int] = {}
        """Ordinal -> index of the frames that are still to come."""
        self._to_annex_b = _annex_b_filter(index.info.codec, stream)
        self._like: Likeness | None = None
        self._is_begun = False
        """Whether packets were sent since the stream last ended."""
        # Begun by PyTorch: where CUDA fails the library ends the process, without an error.
        with cuda_started(decoding, self._asked):
            self._order = OwnStream(decoding.gpu)
        self._context = CudaContext(decoding.gpu, primary_ctx=False, current_ctx=True)
        with self._errors():
            self._decoder: Any = library.CreateDecoder(
                gpuid=decoding.gpu,
                codec=getattr(library.cudaVideoCodec, _CODECS[index.info.codec]),
                cudacontext=0,  # the device's own, which is PyTorch's
                cudastream=self._order.handle,
                usedevicememory=True,
            )

    def be_wary(self) -> None:
        """Do nothing: it reports no damage."""

    def prime(self, first: VideoPacket | None, told: bytes = b"") -> None:
        """Do nothing: each keyframe is sent with the stream's parameter sets."""

    def decode(self, ordinal: int, packet: VideoPacket | None) -> Decoded:
        """Decode one packet, or with None what is still held back: see `Codec.decode`.

        Raises:
            BackendError: the library fails, or gives a frame of no packet that it was sent.
        """
        if packet is None:
            return Decoded([self._shown(frame) for frame in self._ended()], [])
        try:
            parts = self._to_annex_b.filter(_copy_of(packet))
        except av.error.FFmpegError:
            return Decoded([], [ordinal])
        if self._like is None and packet.is_keyframe:
            alone = frame_alone(new_codec(self.stream), packet)
            self._like = None if alone is None else Likeness(alone)
        self._sent[ordinal] = self._index.number_of(ordinal)
        self._is_begun = True
        shown: list[Shown] = []
        for part in parts:
            given = self._library.PacketData()
            given.bsl_data, given.bsl = part.buffer_ptr, part.buffer_size
            given.pts = ordinal
            with self._errors():
                frames = self._decoder.Decode(given)
            shown += [self._shown(frame) for frame in frames]
        return Decoded(shown, [])

    def flush(self) -> None:
        """Forget what was sent: see `Codec.flush`.

        Raises:
            BackendError: the library fails.
        """
        self._ended()
        self._sent.clear()
        self._to_annex_b.flush()

    def close(self) -> None:
        """Release the decoder, when the copies of its frames are done."""
        self._order.wait()
        self._decoder = None

    def _ended(self) -> list[Any]:
        """Tell the decoder that the stream ends here; return the frames that it held back."""
        if not self._is_begun:
            return []
        self._is_begun = False
        end = self._library.PacketData()
        end.decode_flag = int(self._library.VideoPacketFlag.ENDOFSTREAM)
        with self._errors():
            frames: list[Any] = self._decoder.Decode(end)
        return frames

    def _shown(self, frame: Any) -> Shown:
        """Return a frame in memory of its own, and the packet that it is of."""
        ordinal = int(frame.getPTS())
        number = self._sent.pop(ordinal, None)
        if number is None:
            raise BackendError(
                f"{self._asked}, and it gives a frame of packet {ordinal}, which it was not sent, "
                "or gave before, or should have given before another; "
                f"{self._decoding.cure}"
            )
        # Frames come in the order in which they are shown: those before this one will not.
        self._sent = {sent: other for sent, other in self._sent.items() if other > number}
        stays = self._decoding.keeps_on_device
        if self._like is None:
            raise BackendError(
                f"{self._asked}, and no keyframe of it decodes by itself on the CPU, from which "
                f"the colours are known; {self._decoding.cure}"
            )
        with self._errors(), self._order.asked():
            copy = self._order.copy(picture_of(frame), stays=stays)
            # One of another size than the stream began with is refused by who checks frames.
            is_alike = tuple(copy.shape) == self._like.shape
            comes_down = is_alike and not stays
            found = self._like.frame_of(copy.numpy()) if comes_down else self._as_it_is(copy)
        return Shown(ordinal, found)

    def _as_it_is(self, copy: torch.Tensor) -> VideoFrame:
        assert self._like is not None
        height = copy.shape[0] // 3 * 2
        frame = VideoFrame.from_dlpack(
            [copy[:height], copy[height:]],
            format="nv12" if copy.element_size() == 1 else "p010le",
            cuda_context=self._context,
        )
        frame.colorspace, frame.color_range = self._like.matrix, self._like.range
        return frame

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what the library raises as a BackendError."""
        library = self._library
        try:
            yield
        except (
            *(library.PyNvVCException, library.PyNvVCExceptionUnsupported, av.error.FFmpegError),
            *(RuntimeError, ValueError, TypeError, AttributeError),
        ) as error:
            raise BackendError(
                f"{self._asked}, and fails: {_line(error)}; {self._decoding.cure}"
            ) from error


def _annex_b_filter(codec: str, stream: VideoStream) -> BitStreamFilterContext:
    """Return what makes packets as the library reads them: with start codes, and each keyframe with
    the parameter sets, which MP4 keeps apart.
    """
    return BitStreamFilterContext(f"{codec}_mp4toannexb,dump_extra=freq=keyframe", stream)


def _copy_of(packet: VideoPacket) -> VideoPacket:
    """Return a packet that a filter may empty: the keyframe is held against the CPU's yet."""
    copy = cast(VideoPacket, Packet(bytes(packet)))
    copy.is_keyframe = packet.is_keyframe
    return copy


def _line(error: BaseException) -> str:
    return first_line(error)[:200]
