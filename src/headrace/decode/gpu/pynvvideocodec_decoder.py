"""PyNvVideoCodec backend: NVIDIA's packet decoder, fed with packets from PyAV.

Based on the signatures and docstrings of version 2.2.4, the source of older versions, and runs of
that wheel with a stand-in driver that decodes nothing. A frame has the time of its packet, the next
call overwrites its memory, and work runs on the decoder's CUDA stream. Output is checked against
the index here, and one frame against the CPU's in `gpu_frames`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import av
from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.stream import VideoStream

from headrace.decode.capabilities import Capabilities
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.gpu.gpu_frames import IDLE_CODECS, GpuFrames, Nv12FrameBuilder
from headrace.decode.gpu.nvdec import SURFACES, cuda_started, frame_bytes
from headrace.decode.protocol import DecodeCounters
from headrace.errors import BackendError, first_line
from headrace.extras import require
from headrace.video.codec import (
    Codec,
    DecodedFrame,
    PacketResult,
    VideoPacket,
    facts_of,
    frame_alone,
    new_codec,
)
from headrace.video.stream_index import StreamIndex

if TYPE_CHECKING:
    import torch


class DecoderStream:
    """The CUDA stream of one decoder, on which frames are written and copied.

    So a copy runs after its frame is decoded and before the next call overwrites it, without a host
    wait. On the default stream the library would wait for all work there, including a model's.
    """

    def __init__(self, gpu: int) -> None:
        import torch

        self._stream = torch.cuda.Stream(gpu)  # type: ignore[no-untyped-call]
        self._default = torch.cuda.default_stream(gpu)
        self.handle = int(self._stream.cuda_stream)
        """The CUDA handle."""

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
        return list(self._decoder.Decode(data))

    def end(self) -> list[Any]:
        """Send the end of the stream; return the remaining frames."""
        if not self._has_packets:
            return []
        self._has_packets = False
        data = self.library.PacketData()
        data.decode_flag = int(self.library.VideoPacketFlag.ENDOFSTREAM)
        return list(self._decoder.Decode(data))

    def flush_buffers(self) -> None:
        """Drop the stream's state: the next packet may be another stream's."""
        self.end()


_CODECS: Final = {"h264": "H264", "hevc": "HEVC"}
"""FFmpeg's codec name -> the library's."""

CAPABILITIES = Capabilities(
    codecs=tuple(_CODECS),
    pixel_formats=("yuv420p", "yuvj420p", "yuv420p10le"),
    decodes_interlaced=False,
    # For odd sizes the library omits the last row or column of chroma.
    decodes_odd_sizes=False,
    # It reports no damage and no frame type: doubtful entries cannot be verified.
    uses_packets_only=True,
    can_keep_on_device=True,
)
"""Upper bound: the supported codecs depend on the GPU."""
_SURFACES: Final = SURFACES + 4
"""Maximum number of frames in a decoder, with the library's output frames."""


class PyNvVideoCodecs(GpuFrames):
    """PyNvVideoCodec's codecs of one stream. Not thread-safe.

    A decoder is reused after an end-of-stream packet: creating one takes a parser and a driver
    session with its memory.
    """

    def __init__(
        self, decoding: DecoderConfig, index: StreamIndex, counters: DecodeCounters
    ) -> None:
        """Use no GPU yet."""
        super().__init__(decoding, index, counters)
        self._builder = Nv12FrameBuilder(decoding.gpu or 0)

    def _acquire(self, stream: VideoStream, first: VideoPacket | None) -> PyNvVideoCodec:
        decoder = IDLE_CODECS.acquire(self._pool_key(stream), LibraryDecoder) or self._new_decoder()
        return PyNvVideoCodec(decoder, self._decoding, self._index, stream, self._builder)

    def _release(self, codec: Codec, *, is_working: bool) -> None:
        assert isinstance(codec, PyNvVideoCodec)
        decoder = codec.decoder
        with suppress(*errors_of(decoder.library)):  # A failing decoder is freed.
            decoder.order.wait()  # Copies of its frames must finish before its memory is freed.
            if is_working:
                num_bytes = _SURFACES * frame_bytes(self._index)
                IDLE_CODECS.release(self._pool_key(self._stream), decoder, num_bytes)

    def _pool_key(self, stream: VideoStream) -> tuple[object, ...]:
        return self._decoding, facts_of(stream)

    def _new_decoder(self) -> LibraryDecoder:
        library = check_installed()
        decoding, codec = self._decoding, _CODECS[self._index.info.codec]
        assert decoding.gpu is not None
        # PyTorch starts CUDA: on a CUDA failure the library ends the process without an error.
        with cuda_started(decoding, self._request):
            order = DecoderStream(decoding.gpu)
        with as_backend_errors(library, self._request, decoding):
            return LibraryDecoder(library, codec, decoding.gpu, order)


class PyNvVideoCodec:
    """A library decoder working on one stream: a `Codec`. Not thread-safe."""

    reorder_depth = 0

    def __init__(
        self,
        decoder: LibraryDecoder,
        decoding: DecoderConfig,
        index: StreamIndex,
        stream: VideoStream,
        builder: Nv12FrameBuilder,
    ) -> None:
        """Use a decoder without decoding state; `builder` is shared by the stream's codecs."""
        self.decoder = decoder
        """The library's decoder, which is pooled afterwards."""
        self._decoding = decoding
        self._index = index
        self._stream = stream
        self._request = f"{decoding.description} cannot decode {index.source}"
        self._sent: dict[int, int] = {}
        """Packet index -> frame index of pending frames; below 0 for packets without a frame."""
        # MP4 has lengths in place of start codes, and parameter sets outside the packets. A reused
        # decoder needs them before each keyframe.
        filters = f"{index.info.codec}_mp4toannexb,dump_extra=freq=keyframe"
        self._to_annex_b = BitStreamFilterContext(filters, stream)
        self._builder = builder

    def enable_error_detection(self) -> None:
        """Do nothing: the library reports no damage."""

    def send_parameter_sets(self, first: VideoPacket | None, in_force: bytes = b"") -> None:
        """Do nothing: each keyframe is sent with the stream's parameter sets."""

    def decode(self, packet_index: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or drain the decoder with None: see `Codec.decode`.

        Raises:
            BackendError: the library fails, or outputs a frame of an unknown packet.
        """
        if packet is None:
            with self._errors():
                frames = self.decoder.end()
            return PacketResult([self._shown(frame) for frame in frames], [])
        try:
            parts = self._to_annex_b.filter(_copy_of(packet))
        except av.error.FFmpegError:
            return PacketResult([], [packet_index])
        if packet.is_keyframe and self._builder.shape is None:
            self._builder.learn(frame_alone(new_codec(self._stream), _copy_of(packet)))
        self._sent[packet_index] = self._index.frame_index_of(packet_index)
        shown: list[DecodedFrame] = []
        for part in parts:
            with self._errors():
                frames = self.decoder.decode(part, packet_index)
            shown += [self._shown(frame) for frame in frames]
        return PacketResult(shown, [])

    def flush(self) -> None:
        """Drop pending packets: see `Codec.flush`.

        Raises:
            BackendError: the library fails.
        """
        with self._errors():
            self.decoder.flush_buffers()
        self._sent.clear()
        self._to_annex_b.flush()

    def _shown(self, frame: Any) -> DecodedFrame:
        """Return a copy of a frame with its packet index."""
        packet_index = int(frame.getPTS())
        frame_index = self._sent.pop(packet_index, None)
        if frame_index is None:
            raise BackendError(
                f"{self._request}: it returned a frame of packet {packet_index}, which was not "
                "sent, or was returned before, or out of order; "
                f"{self._decoding.fix}"
            )
        # Output is in presentation order, so earlier frames are lost. Packets hidden by an edit
        # list have no frame index, and may still be output.
        self._sent = {
            sent: other for sent, other in self._sent.items() if other < 0 or other > frame_index
        }
        stays = self._decoding.keeps_on_device
        if self._builder.shape is None:
            raise BackendError(
                f"{self._request}: its color properties are unknown, as the CPU decodes none of "
                f"its keyframes alone; {self._decoding.fix}"
            )
        with self._errors(), self.decoder.order.current():
            copy = self.decoder.order.copy(rows_tensor_of(frame), stays=stays)
            # `GpuFrames.check` refuses a frame of another size.
            if stays or tuple(copy.shape) != self._builder.shape:
                return DecodedFrame(packet_index, self._builder.wrap(copy))
            return DecodedFrame(packet_index, self._builder.planar(copy.numpy()))

    def _errors(self) -> AbstractContextManager[None]:
        return as_backend_errors(self.decoder.library, self._request, self._decoding)


def _copy_of(packet: VideoPacket) -> VideoPacket:
    """Return a copy of a packet without discard flags, for a filter that empties it."""
    copy = cast(VideoPacket, Packet(bytes(packet)))
    copy.is_keyframe = packet.is_keyframe
    return copy
