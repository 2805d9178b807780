"""What is known of a proxy, in one small file: its original's index, and where its packets are."""

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import arrays_of, index_of
from headrace.errors import CacheError, reason_of
from headrace.text_file import write_bytes_whole
from headrace.video.proxy_source import AGAIN
from headrace.video.source import Source
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
