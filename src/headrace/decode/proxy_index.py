"""The index of a video that is read from its proxy."""

import io
import json
import zipfile
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from headrace.atomic_file import write_bytes_whole
from headrace.decode.index_store import arrays_of, index_of
from headrace.errors import CacheError, ConfigError, OpenError, reason_of
from headrace.video.container import MAX_PIXELS
from headrace.video.frame_format import Fit, Orientation, ResizeFit
from headrace.video.frame_status import FrameStatus
from headrace.video.source import AGAIN, ProxySource, Source
from headrace.video.stream_index import StreamIndex

_VERSION = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyPackets:
    """Where the packets of a proxy are, and what a decoder must be told first.

    There is one packet for each frame, in their order: no frame is reordered.
    """

    codec: str
    """`h264`, `hevc`, `av1` or `mjpeg`."""
    size: tuple[int, int]
    """(height, width) of its frames."""
    colour: tuple[int, int]
    """(matrix, range) of its frames: the codes of FFmpeg."""
    extradata: bytes
    """What the decoder is told before the first packet."""
    offsets: NDArray[np.int64]
    """int64 [frames]: byte of the file where the packet begins."""
    sizes: NDArray[np.int64]
    """int64 [frames]: bytes."""
    is_keyframe: NDArray[np.bool_]
    """bool [frames]: decoding can begin here."""
    checksums: NDArray[np.int64]
    """int64 [frames]: CRC-32 of the bytes of the packet."""
    lost: NDArray[np.int64]
    """int64: indices of frames that are damaged in the original, and shown as FFmpeg shows them."""


def write_proxy_entry(path: Path, index: StreamIndex, packets: ProxyPackets) -> None:
    """Write what is known of a proxy, whole or not at all; `index` is that of its original.

    Raises:
        ConfigError: it cannot be written.
    """
    facts = {
        "version": _VERSION,
        "codec": packets.codec,
        "size": packets.size,
        "colour": packets.colour,
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
    """Return the index of the original, which `source` is from now on, and the proxy's packets.

    Raises:
        CacheError: it cannot be read, or is something else.
    """
    try:
        with path.open("rb") as file, np.load(_whole(file), allow_pickle=False) as stored:
            if any(part.compress_type != zipfile.ZIP_STORED for part in stored.zip.infolist()):
                raise ValueError("it is compressed, so its size is not what it seems")
            header = json.loads(bytes(stored["header"]))
            facts = header["proxy"]
            if facts["version"] != _VERSION:
                raise ValueError(f"its layout is version {facts['version']}, not {_VERSION}")
            offsets, sizes, is_keyframe, checksums = stored["packets"].astype(np.int64, copy=False)
            packets = ProxyPackets(
                codec=str(facts["codec"]),
                size=tuple(facts["size"]),
                colour=tuple(facts["colour"]),
                extradata=bytes(stored["extradata"]),
                offsets=offsets,
                sizes=sizes,
                is_keyframe=is_keyframe.astype(np.bool_),
                checksums=checksums,
                lost=stored["lost"].astype(np.int64, copy=False),
            )
            return index_of(stored, header, source), packets
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise CacheError(f"{path} cannot be read: {_reason(error)}; {AGAIN}") from error


def _whole(file: BinaryIO) -> BinaryIO:
    """Return a file of arrays; ValueError in words if it is none, where NumPy would guess."""
    if not zipfile.is_zipfile(file):
        raise ValueError("it is cut off, or something else")
    file.seek(0)
    return file


def _reason(error: Exception) -> str:
    return reason_of(error) if isinstance(error, OSError) else str(error)


CODECS = ("h264", "hevc", "av1", "mjpeg")
"""That proxies have."""
_ROUNDED = 2
"""Pixels that a side may be off, since sides are even."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProxyIndex(StreamIndex):
    """Frames, times and GOPs of the original, and the pictures of the proxy.

    Sampling sees the original; `info` says codec and size of what is decoded, and decoding is
    planned by the proxy's own GOPs.
    """

    proxy: ProxySource
    """The same as `source`."""
    table: ProxyPackets
    """Where the packets of the proxy are, one for each frame."""
    size_before: tuple[int, int]
    """(height, width) of upright frames of the original."""

    @classmethod
    def of(cls, source: ProxySource) -> "ProxyIndex":
        """Read the index of a video from beside its proxy; 1 ms.

        Raises:
            OpenError: it is not there, or cannot be read, or is not that of such a proxy.
        """
        try:
            found, table = read_proxy_entry(source.entry, source)
        except CacheError as error:
            raise OpenError(
                f"cannot open the proxy of {source}: {error}", source=str(source)
            ) from error
        wrong = _wrong(found, table, source)
        if wrong:
            raise OpenError(
                f"cannot open the proxy of {source}: {source.entry} is not that of a proxy, "
                f"{wrong}; {AGAIN}",
                source=str(source),
            )
        info = replace(
            found.info,
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
        kept = {each.name: getattr(found, each.name) for each in fields(found)}
        kept |= {"info": info, "verdicts": FrameStatus(len(found)), "kept_in": None}
        before = found.info.upright_size
        return cls(**kept, proxy=source, table=table, size_before=before)

    @property
    def original_size(self) -> tuple[int, int]:
        """(height, width) of upright frames of the original."""
        return self.size_before

    @property
    def decoded_gop_lengths(self) -> NDArray[np.int64]:
        """int64 [GOPs of the proxy]: frames of each."""
        return np.diff(self.keyframes, append=len(self))

    @cached_property
    def keyframes(self) -> NDArray[np.int64]:
        """int64 [GOPs of the proxy], ascending, first 0: where decoding may begin."""
        return np.flatnonzero(self.table.is_keyframe)

    @cached_property
    def lost(self) -> frozenset[int]:
        """Indices of frames that are damaged in the original."""
        return frozenset(self.table.lost.tolist())

    def check_fit(self, fit: Fit | ResizeFit) -> None:
        """Do nothing if the aspect ratio is that of the original, or is not to be kept.

        Raises:
            ConfigError: the proxy was stretched, and `fit` is to keep the aspect ratio.
        """
        (tall, wide), (height, width) = self.size_before, self.table.size
        off = min(abs(width - height * wide / tall), abs(height - width * tall / wide))
        if fit == "stretch" or isinstance(fit, ResizeFit) or off < _ROUNDED:
            return
        raise ConfigError(
            f"fit={fit!r} keeps the aspect ratio, which the proxy of {self.source} has lost: it is "
            f"{height}x{width}, of {tall}x{wide} (height x width); leave fit out, or make proxies "
            f"that keep it: headrace proxy --size {min(height, width)}"
        )


def _wrong(index: StreamIndex, table: ProxyPackets, source: ProxySource) -> str:
    """Return what cannot be of a table, in words; empty if nothing."""
    if index.fingerprint != source.known:
        return "but of another version of the video"
    if table.codec not in CODECS:
        return f"its codec is {table.codec!r}"
    height, width = table.size
    if height < 1 or width < 1 or height * width > MAX_PIXELS:
        return f"its frames are {height}x{width}"
    if len(index) != len(table.offsets):
        return f"it has {len(table.offsets)} packets for {len(index)} frames"
    if not table.is_keyframe[0]:
        return "its first frame is no keyframe"
    lost = table.lost
    if len(lost) and not (lost.min() >= 0 and lost.max() < len(index)):
        return "it names frames that there are not"
    room = source.proxy_bytes - table.sizes
    is_inside = (table.sizes > 0) & (table.offsets >= 0) & (table.offsets <= room)
    return "" if is_inside.all() else "it has packets outside the file"
