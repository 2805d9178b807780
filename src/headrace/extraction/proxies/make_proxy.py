"""Proxy worker: decodes, encodes, compares and reads back each proxy, and records it."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from av.error import FFmpegError
from av.packet import Packet
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.atomic_file import partial_of
from headrace.decode.frame_outputs import Array
from headrace.decode.protocol import DecodeCounters, Decoder
from headrace.decode.proxies import VIDEOS, ProxyRow
from headrace.decode.proxy_index import ProxyPackets, write_proxy_entry
from headrace.errors import (
    BackendError,
    DecodeError,
    MediaError,
    StageError,
    file_errors,
    first_line,
    reason_of,
)
from headrace.extraction.chunk_worker import (
    ChunkWorker,
    chunk_of,
    group_jobs,
    plan_jobs,
    run_worker,
)
from headrace.extraction.journal import HOME, Journal, JournalEntry
from headrace.extraction.progress_recorder import StepTimer
from headrace.extraction.proxies.encoder import (
    PlayTimes,
    ProxyFile,
    ProxyFormat,
    encoding_of,
    new_decoder,
)
from headrace.extraction.proxies.proxy_options import proxy_size
from headrace.runtime.child_process import Json
from headrace.runtime.worker_pool import ChunkReporter
from headrace.video.container import open_container
from headrace.video.content_digest import digest_of
from headrace.video.frame_format import TAG_BYTES, FrameFormat
from headrace.video.metadata import read_metadata
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

PARTS: Final = ("decode", "encode", "compare")
"""Parts of the work of one worker, in order."""
FAULTS: Final = (FFmpegError, MediaError, OSError)
"""Errors of an unreadable proxy."""
_STEP_FRAMES: Final = 64
_JOB_BYTES: Final = 16 << 20
"""Max bytes of frames decoded ahead of the encoder."""
_SQUARE: Final = Fraction(1, 50)
"""Max deviation from square pixels to store as square: sides are rounded to even numbers."""


def make_proxies(argument: Json, send: Callable[[Json], None]) -> Json:
    """Run all remaining chunks: see `Extraction.pool_task`."""
    return run_worker(argument, send, ProxyWorker)


class ProxyWorker(ChunkWorker):
    """Worker that makes proxies, one after another."""

    def __init__(self, argument: dict[str, Any], journal: Journal) -> None:
        """Open nothing yet: see `ChunkWorker`."""
        super().__init__(argument, journal)
        self._asked: Mapping[str, Any] = self.request.asked
        self._size = proxy_size(str(self._asked["size"]))

    def shape_of(self, index: StreamIndex) -> FrameFormat:
        """Return the format of a proxy's frames."""
        return FrameFormat(size=self._size.of(index.info.upright_size), layout="yuv420")

    def run_chunk(self, reporter: ChunkReporter) -> None:
        """Write the files of one proxy, then its journal entry.

        Raises:
            ConfigError: the folder cannot be written.
            BackendError: the encoder does not support frames of this size.
            MediaError: the video is damaged and `on_error` is "raise"; or it can no longer be
                opened, or has changed.
        """
        began_ns, (chunk, _) = self.clock.now_ns(), chunk_of(reporter.payload)
        name, decoder = self.request.videos[chunk.video].name, self.decoder_of(chunk.video)
        before = DecodeCounters() + decoder.counters
        partial = partial_of(self.journal.folder / HOME / f"{name}.mp4")
        timer = StepTimer(chunk.video, reporter.send, self.clock, parts=PARTS, frames=_STEP_FRAMES)
        try:
            frames = range(chunk.start, chunk.stop)
            file, packets = self._make(decoder, partial, frames, timer)
            entry = self._publish(file, packets, name, decoder.index, began_ns)
        except (BackendError, DecodeError) as error:
            if self.raises:
                raise
            entry = JournalEntry(files=(), facts={"left_out": str(error)})
        cost = decoder.counters - before
        self.finish(reporter, entry, cost, lost=0 if entry.files else len(decoder.index))

    def _make(
        self, decoder: Decoder[Array], path: Path, frames: range, timer: StepTimer
    ) -> tuple[ProxyFile, ProxyPackets]:
        """Write a proxy to `path`, and read it back; the file exists only after success.

        Args:
            decoder: Decoder of the video; returns packed YUV 4:2:0 in the size of the proxy.
            path: Path of the proxy.
            frames: Frame indices: all, except in a sample.
            timer: Timer of `PARTS`.

        Returns:
            The closed file, and its packet table.

        Raises:
            ConfigError: the file cannot be written.
            BackendError: the encoder does not support frames of this size.
            DecodeError: a frame cannot be decoded.
            StageError: frames read back from disk differ from the written ones.
        """
        index, size = decoder.index, decoder.shape.size
        assert size is not None
        codec, gop = self._asked["codec"], int(str(self._asked["gop"]))
        lost: list[int] = []
        wanted = np.asarray(frames)
        decoded = timer.time_items("decode", _frames(decoder, self.request.conceals, wanted, lost))
        first = next(decoded)
        matrix, span = first[1][-TAG_BYTES:].tolist()
        proxy_format = ProxyFormat(
            size=size,
            codec=codec,
            gop=gop,
            color=encoding_of(codec, gop).color or (matrix, span),
            pixel_aspect=_pixel_aspect(decoder),
        )
        with ProxyFile(path, proxy_format, PlayTimes.of(index)) as file:
            for frame_index, packed in chain([first], decoded):
                with timer.part("encode"):
                    encoded = file.write(packed)
                with timer.part("compare"):
                    file.compare(encoded)
                timer.count_frame(frame_index)
            with timer.part("encode"):
                encoded = file.finish()
            with timer.part("compare"):
                file.compare(encoded)
                packets = _read_back(file, index, len(frames), lost)
        timer.end_step()
        return file, packets

    def _publish(
        self, file: ProxyFile, packets: ProxyPackets, name: str, index: StreamIndex, began_ns: int
    ) -> JournalEntry:
        """Move the files of a proxy into place; return the journal entry."""
        folder, proxy_format = self.journal.folder, file.format
        proxy, facts = Path(VIDEOS) / f"{name}.mp4", Path(VIDEOS) / f"{name}.npz"
        with file_errors(f"cannot write {folder / proxy}", "give another folder with -o"):
            (folder / VIDEOS).mkdir(exist_ok=True)
            num_bytes = file.path.stat().st_size
            file.path.replace(folder / proxy)
        write_proxy_entry(folder / facts, index, packets)
        row = ProxyRow(
            path=str(index.source.path),
            name=name,
            stream=index.source.stream,
            fingerprint=asdict(index.fingerprint),
            content=index.source.content_id(),
            proxy=proxy.as_posix(),
            bytes=num_bytes,
            original_bytes=index.fingerprint.size,
            frames=len(index),
            height=proxy_format.size[0],
            width=proxy_format.size[1],
            original_height=index.info.upright_size[0],
            original_width=index.info.upright_size[1],
            gop=proxy_format.gop,
            codec=proxy_format.codec,
            psnr=file.quality.psnr,
            ssim=file.quality.ssim,
            lost=tuple(packets.lost.tolist()),
            seconds=round((self.clock.now_ns() - began_ns) / 1e9, 3),
        )
        files = ((str(proxy), num_bytes), (str(facts), (folder / facts).stat().st_size))
        return JournalEntry(files=files, facts=asdict(row))


def packets_of(path: Path, proxy_format: ProxyFormat, lost: Sequence[int]) -> ProxyPackets:
    """Return the packet table of a proxy. Reads the file.

    Args:
        path: Proxy file.
        proxy_format: Format of the proxy.
        lost: Frames damaged in the original, with FFmpeg's error concealment.
    """
    container, stream = open_container(Source(path))
    with container:
        packets = [packet for packet in container.demux(stream) if packet.size]
        extradata = bytes(stream.codec_context.extradata or b"")
    return ProxyPackets(
        codec=proxy_format.codec,
        size=proxy_format.size,
        color=proxy_format.color,
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
    with path.open("rb", buffering=0) as file:
        for offset, size in zip(packets.offsets.tolist(), packets.sizes.tolist(), strict=True):
            file.seek(offset)
            packet = Packet(file.read(size))
            yield from map(digest_of, decoder.decode(cast("Packet[VideoStream]", packet)))
        yield from map(digest_of, decoder.decode(None))


def _read_back(file: ProxyFile, index: StreamIndex, frames: int, lost: list[int]) -> ProxyPackets:
    """Return the packet table of a file, after a check that its frames are the compared ones."""
    fault: Exception | None = None
    try:
        packets = packets_of(file.path, file.format, lost)
        is_complete = len(packets.offsets) == frames
        if is_complete and list(digests_of(file.path, packets)) == file.digests:
            return packets
    except FAULTS as error:
        fault = error
    file.path.unlink(missing_ok=True)
    reason = reason_of(fault) if isinstance(fault, OSError) else fault and first_line(fault)
    detail = f" ({reason})" if reason else ""
    raise StageError(
        f"the proxy of {index.source} was read back with errors from {file.path}{detail}; check "
        "the disk, and run the same command again",
        stage="compare",
    ) from fault


def _frames(
    decoder: Decoder[Array], conceals: bool, wanted: NDArray[np.int64], lost: list[int]
) -> Iterator[tuple[int, Array]]:
    """Yield the wanted frames in order; add concealed ones to `lost`."""
    size = decoder.shape.size
    assert size is not None
    (num_bytes,) = decoder.shape.array_shape(size)
    max_frames = max(1, _JOB_BYTES // num_bytes)
    jobs = plan_jobs(decoder.index, wanted, conceals=conceals, min_frames=max_frames)
    for group in group_jobs(jobs, lambda: max_frames):
        for job in group:
            # Concealed frames come last.
            frames = sorted(decoder.run(job), key=lambda frame: frame[0])
            lost += decoder.concealed
            yield from frames


def _pixel_aspect(decoder: Decoder[Array]) -> Fraction:
    """Return the pixel aspect with which players display a proxy like its original."""
    index, shape = decoder.index, decoder.shape
    upright = index.info.upright_size
    height, width = shape.output_size(upright)
    source_height, source_width = replace(shape, size=None, layout="rgb").output_size(upright)
    original = read_metadata(index).pixel_aspect or Fraction(1)
    aspect = original * Fraction(source_width * height, width * source_height)
    return Fraction(1) if abs(aspect - 1) < _SQUARE else aspect.limit_denominator(255)
