"""Proxy index: frames and times of the original, packets of the proxy."""

import io
import zipfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from headrace.atomic_file import write_bytes_whole
from headrace.cached_property import cached_property
from headrace.decode.index_store import UNREADABLE, arrays_of, index_of, integers, open_arrays
from headrace.errors import CacheError, ConfigError, OpenError, reason_of
from headrace.video.container import MAX_PIXELS
from headrace.video.frame_format import Fit, Orientation, ResizeFit
from headrace.video.reference_decode import FrameStatus
from headrace.video.source import AGAIN, ProxySource, Source
from headrace.video.stream_index import StreamIndex

_VERSION = 1
_MAX_CODE = 255
"""Largest code of a matrix or range, by ITU-T H.273."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyPackets:
    """Packet table of a proxy, with the decoder's parameters.

    One packet per frame, in frame order: no frame is reordered.
    """

    codec: str
    """`h264`, `hevc`, `av1` or `mjpeg`."""
    size: tuple[int, int]
    """(height, width) of its frames."""
    color: tuple[int, int]
    """(matrix, range) of its frames, by FFmpeg's codes."""
    extradata: bytes
    """The decoder's extradata."""
    offsets: NDArray[np.int64]
    """int64 [frames]: byte of the file where the packet starts."""
    sizes: NDArray[np.int64]
    """int64 [frames]: bytes of the packet."""
    is_keyframe: NDArray[np.bool_]
    """bool [frames]: decoding can start here."""
    checksums: NDArray[np.int64]
    """int64 [frames]: CRC-32 of the packet's bytes."""
    lost: NDArray[np.int64]
    """int64: indices of frames that are damaged in the original and concealed by FFmpeg."""


def write_proxy_entry(path: Path, index: StreamIndex, packets: ProxyPackets) -> None:
    """Write the entry of a proxy atomically; `index` is its original's.

    Raises:
        ConfigError: it cannot be written.
    """
    facts = {
        "version": _VERSION,
        "codec": packets.codec,
        "size": packets.size,
        "colour": packets.color,
    }
    columns = (packets.offsets, packets.sizes, packets.is_keyframe, packets.checksums)
    file = io.BytesIO()
    np.savez(
        file,
        allow_pickle=False,
        **arrays_of(index, proxy=facts),
        packets=np.stack([column.astype(np.int64) for column in columns]),
        lost=packets.lost.astype(np.int64),
        extradata=np.frombuffer(packets.extradata, np.uint8),
    )
    write_bytes_whole(path, file.getvalue())


def read_proxy_entry(path: Path, source: Source) -> tuple[StreamIndex, ProxyPackets]:
    """Return the original's index, with `source` as its source, and the proxy's packets.

    Raises:
        CacheError: it cannot be read, or is not a proxy entry.
    """
    try:
        with path.open("rb") as file, open_arrays(_checked_zip(file)) as (stored, header):
            facts = header["proxy"]
            if facts["version"] != _VERSION:
                raise ValueError(f"its layout is version {facts['version']}, not {_VERSION}")
            index = index_of(stored, header, source)
            table = stored.read("packets", np.int64, 4, len(index))
            offsets, sizes, is_keyframe, checksums = table
            height, width = integers(facts["size"], 1, MAX_PIXELS)
            matrix, span = integers(facts["colour"], 0, _MAX_CODE)
            packets = ProxyPackets(
                codec=str(facts["codec"]),
                size=(height, width),
                color=(matrix, span),
                extradata=bytes(stored.read("extradata", np.uint8, -1)),
                offsets=offsets,
                sizes=sizes,
                is_keyframe=is_keyframe.astype(np.bool_),
                checksums=checksums,
                lost=stored.read("lost", np.int64, -1),
            )
            return index, packets
    except UNREADABLE as error:
        reason = reason_of(error) if isinstance(error, OSError) else error
        raise CacheError(f"{path} cannot be read: {reason}; {AGAIN}") from error


def _checked_zip(file: BinaryIO) -> BinaryIO:
    """Return a ZIP file at its start; ValueError for another file."""
    if not zipfile.is_zipfile(file):
        raise ValueError("it is truncated, or not a proxy entry")
    file.seek(0)
    return file


CODECS = ("h264", "hevc", "av1", "mjpeg")
"""Codecs of proxies."""
_MAX_ROUNDING = 2
"""Tolerance of a side in pixels: sides are rounded to even."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyIndex(StreamIndex):
    """Index with the original's frames, times and GOPs, and the proxy's pixels.

    Sampling uses the original's frames. `info` has the proxy's codec and size, and decoding is
    planned by the proxy's GOPs.
    """

    proxy: ProxySource
    """Equal to `source`."""
    table: ProxyPackets
    """Packet table of the proxy, one packet per frame."""
    size_before: tuple[int, int]
    """(height, width) of upright frames of the original."""

    @classmethod
    def of(cls, source: ProxySource) -> "ProxyIndex":
        """Read the index of a video from the entry next to its proxy; 1 ms.

        Raises:
            OpenError: the entry is missing, unreadable, or not this proxy's.
        """
        try:
            original, table = read_proxy_entry(source.entry, source)
        except CacheError as error:
            raise OpenError(
                f"cannot open the proxy of {source}: {error}", source=str(source)
            ) from error
        if problem := _problem_of(original, table, source):
            raise OpenError(
                f"cannot open the proxy of {source}: {source.entry} is invalid: {problem}; {AGAIN}",
                source=str(source),
            )
        info = replace(
            original.info,
            codec=table.codec,
            profile="",
            pixel_format="yuvj420p" if table.codec == "mjpeg" else "yuv420p",
            height=table.size[0],
            width=table.size[1],
            orientation=Orientation(),
            reorders=False,
            is_interlaced=False,
            container="mp4",
        )
        values = {field.name: getattr(original, field.name) for field in fields(original)}
        values |= {"info": info, "frame_status": FrameStatus(len(original)), "store_path": None}
        before = original.info.upright_size
        return cls(**values, proxy=source, table=table, size_before=before)

    @property
    def original_size(self) -> tuple[int, int]:
        """(height, width) of upright frames of the original."""
        return self.size_before

    @property
    def decoded_gop_lengths(self) -> NDArray[np.int64]:
        """int64 [GOPs of the proxy]: frames of each GOP."""
        return np.diff(self.keyframes, append=len(self))

    @cached_property
    def keyframes(self) -> NDArray[np.int64]:
        """int64 [GOPs of the proxy], ascending, first 0: frames where decoding can start."""
        return np.flatnonzero(self.table.is_keyframe)

    @cached_property
    def lost(self) -> frozenset[int]:
        """Indices of frames that are damaged in the original."""
        return frozenset(self.table.lost.tolist())

    def check_fit(self, fit: Fit | ResizeFit) -> None:
        """Check that the proxy has the original's aspect ratio, if `fit` keeps it.

        Raises:
            ConfigError: the proxy was stretched, and `fit` keeps the aspect ratio.
        """
        (tall, wide), (height, width) = self.size_before, self.table.size
        deviation = min(abs(width - height * wide / tall), abs(height - width * tall / wide))
        if fit == "stretch" or isinstance(fit, ResizeFit) or deviation < _MAX_ROUNDING:
            return
        raise ConfigError(
            f"fit={fit!r} keeps the aspect ratio, but the proxy of {self.source} is stretched: "
            f"{height}x{width} from {tall}x{wide} (height x width); leave fit out, or make proxies "
            f"that keep the ratio: headrace proxy --size {min(height, width)}"
        )


def _problem_of(index: StreamIndex, table: ProxyPackets, source: ProxySource) -> str:
    """Return the first problem of an entry, as a clause; empty if it is valid."""
    if index.fingerprint != source.known:
        return "it is for another version of the video"
    if table.codec not in CODECS:
        return f"its codec is {table.codec!r}"
    height, width = table.size
    if height * width > MAX_PIXELS:
        return f"its frame size is {height}x{width}"
    if not table.is_keyframe[0]:
        return "its first frame is not a keyframe"
    lost = table.lost
    if len(lost) and not (lost.min() >= 0 and lost.max() < len(index)):
        return "its lost frames are out of range"
    room = source.proxy_bytes - table.sizes
    is_inside = (table.sizes > 0) & (table.offsets >= 0) & (table.offsets <= room)
    return "" if is_inside.all() else "it has packets outside the file"
