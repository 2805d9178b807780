"""A proxy as it lies on disk: where its packets are, and what they show."""

import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, cast

import numpy as np
from av.error import FFmpegError
from av.packet import Packet
from av.video.stream import VideoStream

from headrace.decode.packet_table import ProxyPackets
from headrace.errors import MediaError
from headrace.extraction.proxies.codecs import new_decoder
from headrace.extraction.proxies.encoder import Look
from headrace.video.container import open_container
from headrace.video.planes import digest_of
from headrace.video.source import Source

FAULTS: Final = (FFmpegError, MediaError, OSError)
"""Errors of a proxy that cannot be read."""


def packets_of(path: Path, look: Look, lost: Sequence[int]) -> ProxyPackets:
    """Return where the packets of a proxy are. Reads the file.

    Args:
        path: The proxy.
        look: How it was made.
        lost: Frames that are damaged in the original, and shown as FFmpeg shows them.
    """
    container, stream = open_container(Source(path))
    with container:
        found = [packet for packet in container.demux(stream) if packet.size]
        extradata = bytes(stream.codec_context.extradata or b"")
    return ProxyPackets(
        codec=look.codec,
        size=look.size,
        colour=look.colour,
        extradata=extradata,
        offsets=np.array([packet.pos for packet in found], np.int64),
        sizes=np.array([packet.size for packet in found], np.int64),
        is_keyframe=np.array([packet.is_keyframe for packet in found], np.bool_),
        checksums=np.array([zlib.crc32(bytes(packet)) for packet in found], np.int64),
        lost=np.array(sorted(lost), np.int64),
    )


def digests_of(path: Path, packets: ProxyPackets) -> Iterator[int]:
    """Yield a checksum of each frame, read as loaders read: by offset and size, nothing else."""
    decoder = new_decoder(packets.codec, packets.extradata)
    with path.open("rb") as file:
        for offset, size in zip(packets.offsets.tolist(), packets.sizes.tolist(), strict=True):
            packet = Packet(os.pread(file.fileno(), size, offset))
            yield from map(digest_of, decoder.decode(cast("Packet[VideoStream]", packet)))
        yield from map(digest_of, decoder.decode(None))
