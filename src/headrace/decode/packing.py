"""Packing: lossless compression of waiting frames by FFmpeg's intra codecs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from headrace.decode.exact_planes import PLANES, ExactPlanes, Planes, PlanesSample
from headrace.decode.frame_outputs import Array
from headrace.decode.yuv420 import planar_to_rgb, planes_in
from headrace.errors import BackendError
from headrace.runtime.clock import Clock
from headrace.video.content_digest import rows_of
from headrace.video.frame_format import TAG_BYTES, FrameFormat
from headrace.video.pyav_version import BYTE_ORDER, ONE_THREAD

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext

LIBRARIES: Final = ", ".join(f"{name} {version}" for name, version in av.library_versions.items())
"""Versions of FFmpeg's libraries, on which pixels and packets depend."""
_RAW: Final = 0
"""First byte of an unpacked frame, stored because its packet is not smaller; its pixels follow."""
_PLANES: Final = 0x80
"""Bit of the first byte of frames packed as exact planes."""
_SMALLEST: Final = 16
"""Shorter side in pixels from which frames are packed: some codecs crash below 4."""


@dataclass(frozen=True)
class Packing:
    """A lossless intra codec."""

    number: int
    """First byte of its packets, 1 to 127."""
    codec: str
    """FFmpeg's name."""
    formats: tuple[str, ...]
    """Its pixel formats for 8-bit RGB, 16-bit RGB and YUV 4:2:0; empty: not supported."""
    prediction: str
    """FFmpeg's name of its pixel prediction."""

    def pixel_format(self, shape: FrameFormat) -> str:
        """Return the codec's pixel format for frames of a format; empty if not supported."""
        kind = 2 if shape.layout == "yuv420" else 1 if shape.dtype == "uint16" else 0
        return self.formats[kind]


UTVIDEO: Final = Packing(1, "utvideo", ("gbrp", "", "yuv420p"), "median")
"""A third of the bytes for real video at 256x256, or a fifth as exact planes; packs and unpacks in
0.6 ms on one core."""
UTVIDEO_LEFT: Final = Packing(3, "utvideo", ("gbrp", "", "yuv420p"), "left")
"""A quarter more bytes; unpacks in 0.3 ms."""
FFVHUFF: Final = Packing(2, "ffvhuff", ("", f"gbrp16{BYTE_ORDER}", ""), "median")
"""For 16 bits."""
PACKINGS: Final = (UTVIDEO, UTVIDEO_LEFT, FFVHUFF)
"""All codecs, the smallest packets first. Rejected by measurement: FFV1 packs to a quarter, but
takes 3 ms each way; MagicYUV is slower than Ut Video; FFVHUFF of 8 bits and QOI are larger and
slower to unpack."""


def exact_planes(shape: FrameFormat) -> ExactPlanes | None:
    """Return scalers for frames of a format; None: they cannot be packed as exact planes."""
    is_rgb = shape.layout == "rgb" and shape.dtype == "uint8" and shape.interpolation == "area"
    is_packed = shape.size is not None and min(shape.size) >= _SMALLEST
    return ExactPlanes(shape) if is_rgb and is_packed else None


class _Codec:
    """Encoder and decoder of one packing, pixel format and size."""

    def __init__(self, packing: Packing, pixel_format: str, size: Sequence[int]) -> None:
        """Open nothing yet."""
        self._packing, self._size = packing, size
        self.pixel_format = pixel_format
        self._encoder: VideoCodecContext | None = None
        self._decoder: VideoCodecContext | None = None

    def encode(self, frame: VideoFrame) -> bytes:
        """Return a frame's packet. Raises BackendError: FFmpeg cannot encode it."""
        try:
            return b"".join(map(bytes, self._contexts()[0].encode(frame)))
        except av.error.FFmpegError as error:
            raise BackendError(
                f"frames of {self._size[0]}x{self._size[1]} cannot be packed as "
                f"{self._packing.codec}: {error}; hold them as rgb"
            ) from error

    def decode(self, packet: bytes) -> VideoFrame:
        """Return the frame of a packet. Raises BackendError: it is damaged."""
        try:
            [frame] = self._contexts()[1].decode(av.Packet(packet))
        except (av.error.FFmpegError, ValueError) as error:
            self._decoder = None  # it may be drained
            raise BackendError(f"a packed frame cannot be unpacked: {error}") from error
        return frame

    def _contexts(self) -> tuple[VideoCodecContext, VideoCodecContext]:
        if self._encoder is None or self._decoder is None:
            self._encoder = self._context("w")
            self._encoder.open()
            self._decoder = self._context("r")
            self._decoder.extradata = self._encoder.extradata
            self._decoder.codec_tag = self._encoder.codec_tag
        return self._encoder, self._decoder

    def _context(self, mode: Any) -> VideoCodecContext:
        codec = self._packing.codec
        try:
            context: VideoCodecContext = av.CodecContext.create(codec, mode)  # type: ignore[assignment]
        except ValueError as error:
            raise BackendError(
                f"FFmpeg of PyAV {av.__version__} has no codec {codec} to pack frames "
                'with; hold them as "rgb", without spill'
            ) from error
        context.height, context.width = self._size
        context.pix_fmt = self.pixel_format
        context.thread_count = 1
        if mode == "w":
            context.time_base = Fraction(1, 25)
            context.options = {"pred": self._packing.prediction}
        return context


class Packer:
    """Packs and unpacks frames of one format and size, bit for bit. Not thread-safe."""

    def __init__(self, packing: Packing, shape: FrameFormat) -> None:
        """Open no codec yet; `shape` has a size."""
        assert shape.size is not None
        self.packing = packing
        self._size: tuple[int, int] = tuple(shape.size)  # type: ignore[assignment]
        self._is_yuv = shape.layout == "yuv420"
        if self._is_yuv:
            self._format = "yuv420p"
        else:
            self._format = "rgb24" if shape.dtype == "uint8" else f"rgb48{BYTE_ORDER}"
        # Codec and size: without them, a packet of another size could decode to wrong pixels.
        size = struct.pack("<HH", *self._size)
        self._codec = _Codec(packing, packing.pixel_format(shape), self._size)
        self._header = bytes([packing.number]) + size
        self._planes_codec = _Codec(packing, PLANES, self._size)
        self._planes_header = bytes([packing.number | _PLANES]) + size
        self._to_coded, self._from_coded = VideoReformatter(), VideoReformatter()

    def pack(self, frame: Array | Planes) -> bytes:
        """Return a frame, in the layout of the format or as exact planes, as a header and a packet.

        Pixels that the codec cannot make smaller are stored unpacked. Cost: see the codecs.
        """
        if isinstance(frame, Planes):
            return self._planes_header + frame.tags + self._planes_codec.encode(frame.frame)
        packet = b""
        if min(self._size) >= _SMALLEST:
            pixels = VideoFrame.from_ndarray(self._planes(frame), format=self._format)
            coded = self._codec.pixel_format
            packet = self._codec.encode(self._to_coded.reformat(pixels, format=coded, **ONE_THREAD))
        if not 0 < len(packet) < frame.nbytes:
            return bytes([_RAW]) + frame.tobytes()
        tags = frame[-TAG_BYTES:].tobytes() if self._is_yuv else b""
        return self._header + tags + packet

    def unpack(self, packed: bytes, out: Array) -> None:
        """Write a packed frame to `out`, in the layout of the format.

        Raises:
            BackendError: it is not a packet of this codec, size and format.
        """
        view, header = memoryview(packed), len(self._header)
        if packed[:1] == bytes([_RAW]) and len(packed) == 1 + out.nbytes:
            out[...] = np.frombuffer(view[1:], out.dtype).reshape(out.shape)
        elif packed[:header] == self._header:
            tags = packed[header : header + (TAG_BYTES if self._is_yuv else 0)]
            self._write(self._codec.decode(packed[header + len(tags) :]), out)
            if tags:
                out[-TAG_BYTES:] = np.frombuffer(tags, np.uint8)
        elif packed[:header] == self._planes_header:
            tags, packet = packed[header : header + TAG_BYTES], packed[header + TAG_BYTES :]
            planar_to_rgb(self._from_coded, self._planes_codec.decode(packet), tags, out)
        else:
            raise BackendError(
                f"a packed frame is not {self.packing.codec} of {self._size[0]}x{self._size[1]}: "
                f"it starts with {packed[:header]!r}"
            )

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


@dataclass(frozen=True, kw_only=True)
class PackedFrames:
    """Packing of a loader's frames, measured on its own frames."""

    codec: str
    """Lossless codec: its name in FFmpeg."""
    bytes_per_frame: int
    """Mean bytes of a packed frame."""
    ratio: float
    """Compression ratio: bytes of a frame's pixels ÷ `bytes_per_frame`."""
    pack_seconds: float
    """Median time of one core to pack a frame, less what its conversion saves; 0: not measured."""
    unpack_seconds: float
    """Median time of one core to unpack a frame; 0: not measured."""


@dataclass(kw_only=True)
class PackingTrial:
    """Size and time of frames of one format, packed with one codec."""

    packing: Packing
    shape: FrameFormat
    clock: Clock
    is_exact: bool = True
    """Whether all unpacked frames equal their originals."""
    _packed_bytes: int = 0
    # Reported as medians, because means include interruptions by other processes.
    _pack_ns: list[int] = field(default_factory=list)
    _unpack_ns: list[int] = field(default_factory=list)

    @property
    def num_frames(self) -> int:
        """Number of timed frames."""
        return len(self._pack_ns)

    def add(self, other: PackingTrial) -> None:
        """Add the frames of another trial of the same codec."""
        self._packed_bytes += other._packed_bytes
        self._pack_ns += other._pack_ns
        self._unpack_ns += other._unpack_ns
        self.is_exact &= other.is_exact

    @property
    def facts(self) -> PackedFrames:
        """Codec, mean size and median times; 0 s if no frame was timed."""
        assert self.shape.size is not None
        mean_bytes = max(1, self._packed_bytes // max(1, self.num_frames))
        return PackedFrames(
            codec=self.packing.codec,
            bytes_per_frame=mean_bytes,
            ratio=self.shape.frame_bytes(self.shape.size) / mean_bytes,
            pack_seconds=median(self._pack_ns or [0]) / 1e9,
            unpack_seconds=median(self._unpack_ns or [0]) / 1e9,
        )

    def measure(self, frame: Array, sample: PlanesSample | None = None) -> None:
        """Time packing and unpacking of a frame; a codec that fails is not exact.

        Args:
            frame: Pixels, in the format's layout.
            sample: Its exact planes, which are packed instead if it has any.
        """
        packer, unpacked = Packer(self.packing, self.shape), np.empty_like(frame)
        planes = None if sample is None else sample.planes
        content = frame if planes is None else planes
        saved_ns = 0 if sample is None else sample.rgb_ns - sample.planes_ns
        try:
            packer.unpack(packer.pack(content), unpacked)  # warm-up: opens the codec
            started_ns = self.clock.now_ns()
            packed = packer.pack(content)
            packed_ns = self.clock.now_ns()
            packer.unpack(packed, unpacked)
        except BackendError:
            self.is_exact = False
            return
        is_exact = np.array_equal(unpacked, frame)
        if planes is not None and not is_exact:
            self.measure(frame)  # the planes are those of another frame
            return
        self._unpack_ns.append(self.clock.now_ns() - packed_ns)
        self._pack_ns.append(max(0, packed_ns - started_ns - saved_ns))
        self._packed_bytes += len(packed)
        self.is_exact &= is_exact


def trials_of(shape: FrameFormat, clock: Clock) -> list[PackingTrial]:
    """Return a trial of each codec that can pack frames of a format."""
    return [
        PackingTrial(packing=packing, shape=shape, clock=clock)
        for packing in PACKINGS
        if packing.pixel_format(shape)
    ]
