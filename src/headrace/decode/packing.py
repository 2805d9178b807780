"""Packing: lossless compression of waiting frames by FFmpeg's intra codecs."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from headrace.decode.frame_outputs import Array
from headrace.decode.yuv420 import planes_in
from headrace.errors import BackendError
from headrace.video.content_digest import rows_of
from headrace.video.frame_format import TAG_BYTES, FrameFormat
from headrace.video.pyav_version import BYTE_ORDER, ONE_THREAD

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext

LIBRARIES: Final = ", ".join(f"{name} {version}" for name, version in av.library_versions.items())
"""Versions of FFmpeg's libraries, on which pixels and packets depend."""
_RAW: Final = 0
"""First byte of an unpacked frame, stored because its packet is not smaller; its pixels follow."""
_SMALLEST: Final = 16
"""Shorter side in pixels from which frames are packed: some codecs crash below 4."""


@dataclass(frozen=True)
class Packing:
    """A lossless intra codec."""

    number: int
    """First byte of its packets, 1 to 255."""
    codec: str
    """FFmpeg's name."""
    formats: tuple[str, ...]
    """Its pixel formats for 8-bit RGB, 16-bit RGB and YUV 4:2:0; empty: not supported."""
    prediction: str
    """FFmpeg's name of its pixel prediction for planar formats."""

    def pixel_format(self, shape: FrameFormat) -> str:
        """Return the codec's pixel format for frames of a format; empty if not supported."""
        kind = 2 if shape.layout == "yuv420" else 1 if shape.dtype == "uint16" else 0
        return self.formats[kind]


UTVIDEO: Final = Packing(1, "utvideo", ("gbrp", "", "yuv420p"), "median")
"""A third of the bytes for real video at 256x256; packs in 0.6 ms and unpacks in 0.7 ms on one
core."""
FFVHUFF: Final = Packing(2, "ffvhuff", ("rgb24", f"gbrp16{BYTE_ORDER}", "yuv420p"), "median")
"""Under half of the bytes; packs in 0.3 ms and unpacks in 0.8 ms."""
PACKINGS: Final = (UTVIDEO, FFVHUFF)
"""All codecs, the smallest packets first. Rejected by measurement: FFV1 packs to a quarter, but
takes 3 ms each way; MagicYUV is slower than Ut Video; QOI is larger and slower than FFVHUFF."""


class Packer:
    """Packs and unpacks frames of one format and size, bit for bit. Not thread-safe."""

    def __init__(self, packing: Packing, shape: FrameFormat) -> None:
        """Open no codec yet; `shape` has a size."""
        assert shape.size is not None
        self.packing = packing
        self._shape = shape
        self._size: tuple[int, int] = tuple(shape.size)  # type: ignore[assignment]
        self._is_yuv = shape.layout == "yuv420"
        if self._is_yuv:
            self._format = "yuv420p"
        else:
            self._format = "rgb24" if shape.dtype == "uint8" else f"rgb48{BYTE_ORDER}"
        self._coded_format = packing.pixel_format(shape)
        self._header = bytes([packing.number]) + struct.pack("<HH", *self._size)
        """Codec and size: without them, a packet of another size could decode to wrong pixels."""
        self._encoder: VideoCodecContext | None = None
        self._decoder: VideoCodecContext | None = None
        self._to_coded, self._from_coded = VideoReformatter(), VideoReformatter()

    def pack(self, frame: Array) -> bytes:
        """Return a frame, in the layout of the format, as a header and a packet.

        A frame that the codec cannot make smaller is stored unpacked. Cost: see the codecs.
        """
        packet = self._encode(self._planes(frame)) if min(self._size) >= _SMALLEST else b""
        if not 0 < len(packet) < frame.nbytes:
            return bytes([_RAW]) + frame.tobytes()
        tags = frame[-TAG_BYTES:].tobytes() if self._is_yuv else b""
        return self._header + tags + packet

    def unpack(self, packed: bytes, out: Array) -> None:
        """Write a packed frame to `out`, in the layout of the format.

        Raises:
            BackendError: it is not a packet of this codec, size and format.
        """
        view = memoryview(packed)
        if packed[:1] == bytes([_RAW]) and len(packed) == 1 + out.nbytes:
            out[...] = np.frombuffer(view[1:], out.dtype).reshape(out.shape)
            return
        header = len(self._header)
        if packed[:header] != self._header:
            raise BackendError(
                f"a packed frame is not {self.packing.codec} of {self._size[0]}x{self._size[1]}: "
                f"it starts with {packed[:header]!r}"
            )
        tags = TAG_BYTES if self._is_yuv else 0
        try:
            frames = self._contexts()[1].decode(av.Packet(packed[header + tags :]))
            [frame] = frames
        except (av.error.FFmpegError, ValueError) as error:
            self._decoder = None  # it may be drained
            raise BackendError(f"a packed frame cannot be unpacked: {error}") from error
        self._write(frame, out)
        if tags:
            out[-tags:] = np.frombuffer(view[header : header + tags], np.uint8)

    def _encode(self, planes: Array) -> bytes:
        frame = VideoFrame.from_ndarray(planes, format=self._format)
        coded = self._to_coded.reformat(frame, format=self._coded_format, **ONE_THREAD)
        try:
            return b"".join(map(bytes, self._contexts()[0].encode(coded)))
        except av.error.FFmpegError as error:
            raise BackendError(
                f"frames of {self._size[0]}x{self._size[1]} cannot be packed as "
                f"{self.packing.codec}: {error}; hold them as rgb"
            ) from error

    def _contexts(self) -> tuple[VideoCodecContext, VideoCodecContext]:
        if self._encoder is None or self._decoder is None:
            self._encoder = self._context("w")
            self._encoder.open()
            self._decoder = self._context("r")
            self._decoder.extradata = self._encoder.extradata
            self._decoder.codec_tag = self._encoder.codec_tag
        return self._encoder, self._decoder

    def _context(self, mode: Any) -> VideoCodecContext:
        try:
            context: VideoCodecContext = av.CodecContext.create(self.packing.codec, mode)  # type: ignore[assignment]
        except ValueError as error:
            raise BackendError(
                f"FFmpeg of PyAV {av.__version__} has no codec {self.packing.codec} to pack frames "
                'with; hold them as "rgb", without spill'
            ) from error
        context.height, context.width = self._size
        context.pix_fmt = self._coded_format
        context.thread_count = 1
        if mode == "w":
            context.time_base = Fraction(1, 25)
            if self._coded_format != "rgb24":
                context.options = {"pred": self.packing.prediction}
        return context

    def _planes(self, frame: Array) -> Array:
        if not self._is_yuv:
            return frame
        height, width = self._size
        return frame[:-TAG_BYTES].reshape(height * 3 // 2, width)

    def _write(self, frame: VideoFrame, out: Array) -> None:
        height, width = self._size
        if self._is_yuv:
            for plane, rows in zip(frame.planes, planes_in(out, self._size), strict=True):
                rows[...] = rows_of(plane, plane.width)
            return
        if frame.format.name != self._format:
            frame = self._from_coded.reformat(frame, format=self._format, **ONE_THREAD)
        rows = rows_of(frame.planes[0], width * 3 * out.itemsize)
        out[...] = rows.view(out.dtype).reshape(height, width, 3)
