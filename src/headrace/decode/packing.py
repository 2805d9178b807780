"""Packing: decoded frames as lossless packets of FFmpeg's intra codecs, while they wait."""

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

LIBRARIES: Final = ", ".join(f"{name} {found}" for name, found in av.library_versions.items())
"""Versions of FFmpeg's libraries, which decide pixels and packets."""
_RAW: Final = 0
"""First byte of a frame that the codec does not make smaller: its pixels follow."""
_SMALLEST: Final = 16
"""Pixels of the shorter side below which frames are not packed: some codecs crash below 4."""


@dataclass(frozen=True)
class Packing:
    """A lossless codec of frames; each of its packets is decoded without any other."""

    number: int
    """First byte of its packets, 1 to 255."""
    codec: str
    """Name in FFmpeg."""
    formats: tuple[str, ...]
    """Pixel formats that it takes: in place of RGB of 8 bits, RGB of 16 bits, and YUV 4:2:0."""
    prediction: str
    """How it predicts pixels, except in interleaved formats, which it predicts from the left."""

    def takes(self, shape: FrameFormat) -> bool:
        """Return whether it packs frames of a format."""
        return bool(self.pixel_format(shape))

    def pixel_format(self, shape: FrameFormat) -> str:
        """Return the pixel format for frames of a format; empty: none."""
        kind = 2 if shape.layout == "yuv420" else 1 if shape.dtype == "uint16" else 0
        return self.formats[kind]


UTVIDEO: Final = Packing(1, "utvideo", ("gbrp", "", "yuv420p"), "median")
"""A third of the bytes of real video, 256x256; 0.6 ms to pack and 0.7 ms to unpack on one core."""
FFVHUFF: Final = Packing(2, "ffvhuff", ("rgb24", f"gbrp16{BYTE_ORDER}", "yuv420p"), "median")
"""Under a half of the bytes; 0.3 ms to pack and 0.8 ms to unpack."""
PACKINGS: Final = (UTVIDEO, FFVHUFF)
"""All codecs, the smallest packets first. Measured by hand: FFV1 packs to a quarter, in 3 ms each
way; MagicYUV is slower than Ut Video, and QOI larger and slower than FFVHUFF."""


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
            self._given = "yuv420p"
        else:
            self._given = "rgb24" if shape.dtype == "uint8" else f"rgb48{BYTE_ORDER}"
        self._coded = packing.pixel_format(shape)
        self._head = bytes([packing.number]) + struct.pack("<HH", *self._size)
        """Codec and size: a packet of another size may be decoded, to other pixels."""
        self._encoder: VideoCodecContext | None = None
        self._decoder: VideoCodecContext | None = None
        self._to_coded, self._to_given = VideoReformatter(), VideoReformatter()

    def pack(self, frame: Array) -> bytes:
        """Return a frame, in the layout of the format, as bytes: codec and size, a packet.

        Cost: see the codecs. A frame that the codec cannot make smaller is kept as it is.
        """
        packet = self._encode(self._planes(frame)) if min(self._size) >= _SMALLEST else b""
        if not 0 < len(packet) < frame.nbytes:
            return bytes([_RAW]) + frame.tobytes()
        tags = frame[-TAG_BYTES:].tobytes() if self._is_yuv else b""
        return self._head + tags + packet

    def unpack(self, packed: bytes, out: Array) -> None:
        """Write a packed frame to `out`, in the layout of the format.

        Raises:
            BackendError: it is no packet of this codec, size and format.
        """
        view = memoryview(packed)
        if packed[:1] == bytes([_RAW]) and len(packed) == 1 + out.nbytes:
            out[...] = np.frombuffer(view[1:], out.dtype).reshape(out.shape)
            return
        head = len(self._head)
        if packed[:head] != self._head:
            raise BackendError(
                f"a packed frame is none of {self.packing.codec}, {self._size[0]}x{self._size[1]}: "
                f"{packed[:head]!r}"
            )
        tags = TAG_BYTES if self._is_yuv else 0
        try:
            frames = self._contexts()[1].decode(av.Packet(packed[head + tags :]))
            [frame] = frames
        except (av.error.FFmpegError, ValueError) as error:
            self._decoder = None  # it may be at an end
            raise BackendError(f"a packed frame cannot be unpacked: {error}") from error
        self._write(frame, out)
        if tags:
            out[-tags:] = np.frombuffer(view[head : head + tags], np.uint8)

    def _encode(self, planes: Array) -> bytes:
        frame = VideoFrame.from_ndarray(planes, format=self._given)
        coded = self._to_coded.reformat(frame, format=self._coded, **ONE_THREAD)
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
        context.pix_fmt = self._coded
        context.thread_count = 1
        if mode == "w":
            context.time_base = Fraction(1, 25)
            if self._coded != "rgb24":
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
        if frame.format.name != self._given:
            frame = self._to_given.reformat(frame, format=self._given, **ONE_THREAD)
        rows = rows_of(frame.planes[0], width * 3 * out.itemsize)
        out[...] = rows.view(out.dtype).reshape(height, width, 3)
