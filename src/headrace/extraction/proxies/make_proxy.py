"""Production of one proxy: decode, encode, compare, and read back from disk."""

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Final, cast

import numpy as np
from av.error import FFmpegError
from av.packet import Packet
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.decode.frame_outputs import Array
from headrace.decode.protocol import Decoder
from headrace.decode.proxy_index import ProxyPackets
from headrace.errors import MediaError, StageError, first_line, reason_of
from headrace.extraction.decode_jobs import JobQueue, jobs
from headrace.extraction.progress_recorder import StepTimer
from headrace.extraction.proxies.encoder import (
    Codec,
    PlayTimes,
    ProxyFile,
    ProxyFormat,
    new_decoder,
)
from headrace.planning.gop_ranges import split_ranges
from headrace.video.container import open_container
from headrace.video.content_digest import digest_of
from headrace.video.frame_format import TAG_BYTES
from headrace.video.metadata import read_metadata
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

FAULTS: Final = (FFmpegError, MediaError, OSError)
"""Errors of an unreadable proxy."""


def packets_of(path: Path, look: ProxyFormat, lost: Sequence[int]) -> ProxyPackets:
    """Return the packet table of a proxy. Reads the file.

    Args:
        path: Proxy file.
        look: Format of the proxy.
        lost: Frames damaged in the original, with FFmpeg's error concealment.
    """
    container, stream = open_container(Source(path))
    with container:
        packets = [packet for packet in container.demux(stream) if packet.size]
        extradata = bytes(stream.codec_context.extradata or b"")
    return ProxyPackets(
        codec=look.codec,
        size=look.size,
        color=look.colour,
        extradata=extradata,
        offsets=np.array([packet.pos for packet in packets], np.int64),
        sizes=np.array([packet.size for packet in packets], np.int64),
        is_keyframe=np.array([packet.is_keyframe for packet in packets], np.bool_),
        checksums=np.array([zlib.crc32(bytes(packet)) for packet in packets], np.int64),
        lost=np.array(sorted(lost), np.int64),
    )


def digests_of(path: Path, packets: ProxyPackets) -> Iterator[int]:
    """Yield a checksum of each frame, read as by loaders: from offset and size only."""
    decoder = new_decoder(packets.codec, packets.extradata)
    with path.open("rb") as file:
        for offset, size in zip(packets.offsets.tolist(), packets.sizes.tolist(), strict=True):
            packet = Packet(os.pread(file.fileno(), size, offset))
            yield from map(digest_of, decoder.decode(cast("Packet[VideoStream]", packet)))
        yield from map(digest_of, decoder.decode(None))


PARTS: Final = ("decode", "encode", "compare")
"""Parts of the work of one worker, in order."""
_JOB_BYTES: Final = 16 << 20
"""Max bytes of frames decoded ahead of the encoder."""
_SQUARE: Final = Fraction(1, 50)
"""Max deviation from square pixels that is stored as square: sides are rounded to even numbers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MadeProxy:
    """Facts of a proxy on disk."""

    look: ProxyFormat
    packets: ProxyPackets
    psnr: Mapping[str, float]
    ssim: Mapping[str, float]


def make_proxy(
    decoder: Decoder[Array],
    path: Path,
    watch: StepTimer,
    *,
    codec: Codec,
    gop: int,
    conceals: bool,
    frames: range,
) -> MadeProxy:
    """Write the proxy of a video to `path`, and read it back.

    Args:
        decoder: Decoder of the video; returns packed YUV 4:2:0 in the size of the proxy.
        path: Path of the proxy; the file exists only after success.
        watch: Times `PARTS`.
        codec: Codec of the proxy.
        gop: Frames from one keyframe to the next.
        conceals: Whether damaged frames are concealed by FFmpeg; else an error.
        frames: Frame indices: all, except in a sample.

    Raises:
        ConfigError: the file cannot be written.
        BackendError: the encoder does not support frames of this size.
        DecodeError: a frame cannot be decoded.
        StageError: frames read back from disk differ from the written ones.
    """
    index, size = decoder.index, decoder.shape.size
    assert size is not None
    lost: list[int] = []
    decoded = _timed(_frames(decoder, conceals, np.asarray(frames), lost), watch)
    first = next(decoded)
    matrix, span = first[1][-TAG_BYTES:].tolist()
    look = ProxyFormat.of(codec, gop, size, (matrix, span), _pixel_aspect(decoder))
    with ProxyFile(path, look, PlayTimes.of(index)) as file:
        for frame_index, packed in chain([first], decoded):
            with watch.part("encode"):
                coded = file.write(packed)
            with watch.part("compare"):
                file.compare(coded)
            watch.came(frame_index)
        with watch.part("encode"):
            coded = file.finish()
        with watch.part("compare"):
            file.compare(coded)
            packets = _read_back(file, index, len(frames), lost)
    watch.end_step()
    return MadeProxy(
        look=look,
        packets=packets,
        psnr=file.likeness.psnr,
        ssim=file.likeness.ssim,
    )


def _read_back(file: ProxyFile, index: StreamIndex, frames: int, lost: list[int]) -> ProxyPackets:
    """Return the packet table of a file, after checking that its frames equal the compared ones."""
    fault: Exception | None = None
    try:
        packets = packets_of(file.path, file.look, lost)
        is_whole = len(packets.offsets) == frames
        if is_whole and list(digests_of(file.path, packets)) == file.digests:
            return packets
    except FAULTS as error:
        fault = error
    file.path.unlink(missing_ok=True)
    reason = reason_of(fault) if isinstance(fault, OSError) else fault and first_line(fault)
    detail = f" ({reason})" if reason else ""
    raise StageError(
        f"the proxy of {index.source} reads back otherwise than it was written to {file.path}"
        f"{detail}; check the disk, and run the same command again",
        stage="compare",
    ) from fault


def _frames(
    decoder: Decoder[Array], conceals: bool, wanted: NDArray[np.int64], lost: list[int]
) -> Iterator[tuple[int, Array]]:
    """Yield the wanted frames in order; add concealed ones to `lost`."""
    size = decoder.shape.size
    assert size is not None
    (num_bytes,) = decoder.shape.array_shape(size)
    most = max(1, _JOB_BYTES // num_bytes)
    planned = list(split_ranges(0, decoder.index, wanted, at_least=most))
    line = JobQueue(jobs(planned, conceals=conceals))
    while taken := line.take(most):
        for job in taken:
            # Concealed frames come last.
            frames = sorted(decoder.run(job), key=lambda frame: frame[0])
            lost += decoder.concealed
            yield from frames


def _timed(frames: Iterator[tuple[int, Array]], watch: StepTimer) -> Iterator[tuple[int, Array]]:
    while True:
        with watch.part("decode"):
            frame = next(frames, None)
        if frame is None:
            return
        yield frame


def _pixel_aspect(decoder: Decoder[Array]) -> Fraction:
    """Return the pixel aspect with which players display a proxy like its original."""
    index, shape = decoder.index, decoder.shape
    upright = index.info.upright_size
    height, width = shape.output_size(upright)
    tall, wide = replace(shape, size=None, layout="rgb").output_size(upright)
    original = read_metadata(index).pixel_aspect or Fraction(1)
    aspect = original * Fraction(wide * height, width * tall)
    return Fraction(1) if abs(aspect - 1) < _SQUARE else aspect.limit_denominator(255)
