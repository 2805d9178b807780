"""NVIDIA's PyNvVideoCodec: its decoder of packets, fed with those that PyAV reads.

No GPU has run this. It rests on the signatures and docstrings of version 2.2.4, on the source of
older ones, and on that wheel with a driver of ours that decodes nothing: a packet goes in with a
time, which its frame has too; frames lie where the next call writes; work is asked of the CUDA
stream that the decoder is given. So what comes out is held against the index here, and a picture
against the CPU's in `gpu_frames`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import Any, Final, cast

import av
from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.stream import VideoStream

from headrace.decode.capabilities import Capabilities
from headrace.decode.codec_pool import RESTING
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.nvdec import SURFACES, bytes_of_picture, cuda_started
from headrace.decode.pynvvideocodec_library import (
    DecoderStream,
    LibraryDecoder,
    Nv12FrameBuilder,
    as_backend_errors,
    check_installed,
    errors_of,
    picture_of,
)
from headrace.errors import BackendError
from headrace.runtime.fork_safety import check_cuda_after_fork
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
_SURFACES: Final = SURFACES + 4
"""Pictures that a decoder holds at most: by the library's source it copies frames out of those."""


class PyNvVideoCodecs:
    """PyNvVideoCodec's codecs of one stream: `GpuCodecs`. Not thread-safe.

    A decoder of the library is kept, and told that its stream has ended: to make one takes a parser
    and a session of the driver, with its memory.
    """

    _stream: VideoStream

    def __init__(self, decoding: DecoderConfig, index: StreamIndex) -> None:
        """Touch no GPU yet."""
        self._decoding = decoding
        self._index = index
        self._asked = f"{decoding.in_words} was asked for to decode {index.source}"
        self._like = Nv12FrameBuilder(decoding.gpu or 0)

    def codec(self, stream: VideoStream, _: VideoPacket | None) -> PyNvVideoCodec:
        """Return a codec of the stream: see `GpuCodecs.codec`."""
        check_cuda_after_fork(self._asked)
        self._stream = stream
        decoder = RESTING.take(self._look(stream), LibraryDecoder) or self._new_decoder()
        return PyNvVideoCodec(decoder, self._decoding, self._index, stream, self._like)

    def let_rest(self, codec: Codec, *, is_sound: bool) -> None:
        """Take back a codec that this one made: see `GpuCodecs.let_rest`."""
        assert isinstance(codec, PyNvVideoCodec)
        decoder = codec.decoder
        with suppress(*errors_of(decoder.library)):  # Then it is let go: it does not work.
            decoder.order.wait()  # Its memory may be released with it, and frames copied from that.
            if is_sound:
                num_bytes = _SURFACES * bytes_of_picture(self._index)
                RESTING.put(self._look(self._stream), decoder, num_bytes)

    def _look(self, stream: VideoStream) -> tuple[object, ...]:
        return self._decoding, facts_of(stream)

    def _new_decoder(self) -> LibraryDecoder:
        library = check_installed()
        decoding, codec = self._decoding, _CODECS[self._index.info.codec]
        assert decoding.gpu is not None
        # Begun by PyTorch: where CUDA fails the library ends the process, without an error.
        with cuda_started(decoding, self._asked):
            order = DecoderStream(decoding.gpu)
        with as_backend_errors(library, self._asked, decoding):
            return LibraryDecoder(library, codec, decoding.gpu, order)


class PyNvVideoCodec:
    """One of the library's decoders at work on a stream: a `Codec`. Not thread-safe."""

    reorder_depth = 0

    def __init__(
        self,
        decoder: LibraryDecoder,
        decoding: DecoderConfig,
        index: StreamIndex,
        stream: VideoStream,
        like: Nv12FrameBuilder,
    ) -> None:
        """Take a decoder that knows nothing yet; `like` is shared by all of the stream."""
        self.decoder = decoder
        """What it decodes by; for the next stream that tells it the same, afterwards."""
        self._decoding = decoding
        self._index = index
        self._stream = stream
        self._asked = f"{decoding.in_words} was asked for to decode {index.source}"
        self._sent: dict[int, int] = {}
        """Ordinal -> index of the frames that are still to come; below 0 without one."""
        # Start codes for lengths, and before each keyframe the parameter sets, which MP4 keeps
        # apart: whatever a decoder was told before, it is told these.
        filters = f"{index.info.codec}_mp4toannexb,dump_extra=freq=keyframe"
        self._to_annex_b = BitStreamFilterContext(filters, stream)
        self._like = like

    def be_wary(self) -> None:
        """Do nothing: it reports no damage."""

    def prime(self, first: VideoPacket | None, told: bytes = b"") -> None:
        """Do nothing: each keyframe is sent with the stream's parameter sets."""

    def decode(self, ordinal: int, packet: VideoPacket | None) -> PacketResult:
        """Decode one packet, or with None what is still held back: see `Codec.decode`.

        Raises:
            BackendError: the library fails, or gives a frame of no packet that it was sent.
        """
        if packet is None:
            with self._errors():
                frames = self.decoder.end()
            return PacketResult([self._shown(frame) for frame in frames], [])
        try:
            parts = self._to_annex_b.filter(_copy_of(packet))
        except av.error.FFmpegError:
            return PacketResult([], [ordinal])
        if packet.is_keyframe and self._like.shape is None:
            self._like.learn(frame_alone(new_codec(self._stream), _copy_of(packet)))
        self._sent[ordinal] = self._index.number_of(ordinal)
        shown: list[DecodedFrame] = []
        for part in parts:
            with self._errors():
                frames = self.decoder.decode(part, ordinal)
            shown += [self._shown(frame) for frame in frames]
        return PacketResult(shown, [])

    def flush(self) -> None:
        """Forget what was sent: see `Codec.flush`.

        Raises:
            BackendError: the library fails.
        """
        with self._errors():
            self.decoder.flush_buffers()
        self._sent.clear()
        self._to_annex_b.flush()

    def _shown(self, frame: Any) -> DecodedFrame:
        """Return a frame in memory of its own, and the packet that it is of."""
        ordinal = int(frame.getPTS())
        number = self._sent.pop(ordinal, None)
        if number is None:
            raise BackendError(
                f"{self._asked}, and it gives a frame of packet {ordinal}, which it was not sent, "
                "or gave before, or should have given before another; "
                f"{self._decoding.cure}"
            )
        # Frames come in the order in which they are shown: those before this one will not. Those
        # that the container has left out, as before an edit, have no place in it, and come as well.
        self._sent = {
            sent: other for sent, other in self._sent.items() if other < 0 or other > number
        }
        stays = self._decoding.keeps_on_device
        if self._like.shape is None:
            raise BackendError(
                f"{self._asked}, and no keyframe of it decodes by itself on the CPU, from which "
                f"the colours are known; {self._decoding.cure}"
            )
        with self._errors(), self.decoder.order.asked():
            copy = self.decoder.order.copy(picture_of(frame), stays=stays)
            # One of another size than the stream began with is refused by who checks frames.
            is_alike = tuple(copy.shape) == self._like.shape
            comes_down = is_alike and not stays
            found = self._like.planar(copy.numpy()) if comes_down else self._like.as_it_lies(copy)
        return DecodedFrame(ordinal, found)

    def _errors(self) -> AbstractContextManager[None]:
        return as_backend_errors(self.decoder.library, self._asked, self._decoding)


def _copy_of(packet: VideoPacket) -> VideoPacket:
    """Return a packet that a filter may empty, and that is not marked to be left out."""
    copy = cast(VideoPacket, Packet(bytes(packet)))
    copy.is_keyframe = packet.is_keyframe
    return copy
