"""Encoder of proxies: writes an MP4, measures its quality, and reads it back from disk."""

import math
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, cast

import av
import numpy as np
from av.container import OutputContainer
from av.filter import Graph
from av.packet import Packet
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.decode.proxy_index import ProxyPackets
from headrace.errors import (
    BackendError,
    ConfigError,
    MediaError,
    StageError,
    first_line,
    reason_of,
)
from headrace.extraction.proxies.proxy_options import Codec, encoding_of, new_decoder
from headrace.video.container import open_container
from headrace.video.content_digest import digest_of
from headrace.video.frame_format import TAG_BYTES
from headrace.video.pyav_version import ONE_THREAD
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

_MAX_TICKS: Final = (1 << 31) - 1
"""Max ticks per second, and max ticks between two frames, in MP4."""
_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class PlayTimes:
    """Frame times for players. Loaders use the exact times of the original's index."""

    ticks_per_second: int
    pts: NDArray[np.int64]
    """int64 [frames], ascending, none below 0."""
    duration: NDArray[np.int64]
    """int64 [frames]."""

    @classmethod
    def of(cls, index: StreamIndex) -> "PlayTimes":
        """Return the times of a video: unchanged if its tick is 1/n of a second."""
        tick = index.info.time_base
        scale, pts, last = tick.denominator, index.pts * tick.numerator, int(index.duration[-1])
        if scale > _MAX_TICKS:
            scale = _MICROSECONDS
            pts = np.rint(index.pts * (float(tick) * scale)).astype(np.int64)
        gaps = np.clip(np.diff(pts), 1, _MAX_TICKS)
        end = np.clip([round(last * tick * scale)], 1, _MAX_TICKS)
        return cls(
            ticks_per_second=scale,
            pts=max(0, int(pts[0])) + np.concatenate(([0], np.cumsum(gaps))),
            duration=np.concatenate((gaps, end)),
        )


_MAX_PSNR: Final = 100.0
"""Decibel; reported PSNR of equal frames, which would be infinite."""
_TICK = Fraction(1, 25)


class QualityMeter:
    """Compares pairs of frames in the size of the proxy, in 0.1 ms for 256x456.

    FFmpeg's filter `ssim` uses windows of 8x8 pixels with a stride of 4.
    """

    def __init__(self, size: tuple[int, int], pixel_format: str) -> None:
        """Compare nothing yet."""
        height, width = size
        form = VideoFormat(pixel_format, width, height)
        self._graph = graph = Graph()
        self._decoded, self._source = (
            graph.add_buffer(width=width, height=height, format=form, time_base=_TICK)
            for _ in range(2)
        )
        split, psnr, ssim = graph.add("split"), graph.add("psnr"), graph.add("ssim")
        self._sink = graph.add("buffersink")
        self._source.link_to(split)
        self._decoded.link_to(psnr, 0, 0)
        split.link_to(psnr, 0, 1)
        psnr.link_to(ssim, 0, 0)
        split.link_to(ssim, 1, 1)
        ssim.link_to(self._sink)
        graph.configure()
        self._frames = 0
        self._errors: list[float] = []
        self._ssim: list[float] = []

    def compare(self, source: VideoFrame, decoded: VideoFrame) -> None:
        """Compare a frame before encoding with the frame decoded from its packet."""
        for frame, buffer in ((decoded, self._decoded), (source, self._source)):
            frame.pts, frame.time_base = self._frames, _TICK
            buffer.push(frame)
        self._frames += 1
        self._pull()

    def finish(self) -> None:
        """Compare the remaining pairs."""
        self._decoded.push(None)
        self._source.push(None)
        self._pull()

    @property
    def psnr(self) -> dict[str, float]:
        """`mean` (from the mean squared error of all frames) and `worst` frame, decibel."""
        mean = sum(self._errors) / len(self._errors)
        return {"mean": _decibel(mean), "worst": _decibel(max(self._errors))}

    @property
    def ssim(self) -> dict[str, float]:
        """`mean` and `worst` frame, up to 1; empty for frames smaller than a window."""
        if any(map(math.isnan, self._ssim)):
            return {}
        return {
            "mean": round(sum(self._ssim) / len(self._ssim), 5),
            "worst": round(min(self._ssim), 5),
        }

    def _pull(self) -> None:
        while True:
            try:
                frame = self._sink.pull()
            except (av.error.BlockingIOError, av.error.EOFError):
                return
            assert isinstance(frame, VideoFrame)
            self._errors.append(float(frame.metadata["lavfi.psnr.mse.y"]))
            self._ssim.append(float(frame.metadata["lavfi.ssim.Y"]))


def _decibel(error: float) -> float:
    if error <= 0:
        return _MAX_PSNR
    return round(min(_MAX_PSNR, 10 * math.log10(255**2 / error)), 3)


_RATE: Final = 25
"""Frame rate set in encoders for every video: parameter sets depend on it, and must be equal.
Players use the packet times."""

_EXACT: Final = 0x4 | 0x40000
"""Flags of swscale: bicubic with exact rounding, which is one grey level more accurate."""


@dataclass(frozen=True, kw_only=True)
class ProxyFormat:
    """Format of a proxy for decoders."""

    size: tuple[int, int]
    """(height, width)."""
    codec: Codec
    gop: int
    color: tuple[int, int]
    """(matrix, range), as FFmpeg's codes: the original's, if the codec can signal it."""
    pixel_aspect: Fraction
    """Width ÷ height of a pixel, for players."""


class ProxyFile:
    """Writes one proxy. An unfinished file is removed. Not thread-safe.

    with ProxyFile(path, format, times) as file:
        file.write(packed)      # for each frame
        file.finish()
    """

    def __init__(self, path: Path, format: ProxyFormat, times: PlayTimes) -> None:
        """Open the file.

        Raises:
            ConfigError: the file cannot be written.
            BackendError: the encoder does not support frames of this size.
        """
        self.path = path
        self.format = format
        self.digests: list[int] = []
        """Digest of each decoded frame."""
        self._times = times
        self._encoding = encoding_of(format.codec, format.gop)
        self.quality = QualityMeter(format.size, self._encoding.pixel_format)
        self._scaler = VideoReformatter()
        self._sources: deque[VideoFrame] = deque()
        """Encoded frames that are not compared yet."""
        self._frames = self._written = 0
        self._container: OutputContainer | None = None
        with self._writing():
            path.open("wb").close()
            self._container = av.open(
                str(path),
                "w",
                format="mp4",
                options={"video_track_timescale": str(times.ticks_per_second)},
            )
        self._stream = self._add_stream(self._container)
        self._decoder = new_decoder(format.codec, self._stream.codec_context.extradata)

    def write(self, packed: NDArray[np.uint8]) -> "list[Packet[VideoStream]]":
        """Append a frame: uint8 [packed bytes] of YUV 4:2:0, packed by a decoder.

        Returns:
            Packets to compare.

        Raises:
            ConfigError: the file cannot be written.
        """
        frame = self._frame(packed)
        self._sources.append(frame)
        frame.pts, frame.time_base = self._frames, Fraction(1, _RATE)
        self._frames += 1
        return self._encode(frame)

    def finish(self) -> "list[Packet[VideoStream]]":
        """Write the remaining packets, and close the file; return the packets to compare.

        Raises:
            ConfigError: the file cannot be written.
        """
        packets, container = self._encode(None), self._container
        assert container is not None
        with self._writing():
            container.close()
            self._container = None
        return packets

    def compare(self, packets: "list[Packet[VideoStream]]") -> None:
        """Decode written packets, and compare them with their source frames."""
        for packet in packets if self._container else (*packets, None):
            for frame in self._decoder.decode(packet):
                self.digests.append(digest_of(frame))
                self.quality.compare(self._sources.popleft(), frame)
        if self._container is None:
            self.quality.finish()

    def __enter__(self) -> "ProxyFile":
        return self

    def __exit__(self, *_: object) -> None:
        if self._container is not None:
            self._remove()

    def _encode(self, frame: VideoFrame | None) -> "list[Packet[VideoStream]]":
        container, times = self._container, self._times
        assert container is not None
        with self._writing():
            packets = self._stream.encode(frame)
            for packet in packets:
                packet.pts = packet.dts = int(times.pts[self._written])
                packet.duration = int(times.duration[self._written])
                packet.time_base = Fraction(1, times.ticks_per_second)
                self._written += 1
                container.mux(packet)
        return packets

    def _frame(self, packed: NDArray[np.uint8]) -> VideoFrame:
        """Return a frame in the color of the proxy."""
        height, width = self.format.size
        planes = packed[:-TAG_BYTES].reshape(height * 3 // 2, width)
        frame = VideoFrame.from_ndarray(planes, format="yuv420p")
        matrix, span = packed[-TAG_BYTES:].tolist()
        if (matrix, span) != self.format.color:
            frame = self._scaler.reformat(
                frame,
                format=self._encoding.pixel_format,
                src_colorspace=matrix,
                src_color_range=span,
                dst_colorspace=self.format.color[0],
                dst_color_range=self.format.color[1],
                interpolation=_EXACT,
                **ONE_THREAD,
            )
        frame.colorspace, frame.color_range = self.format.color
        return frame

    def _add_stream(self, container: OutputContainer) -> VideoStream:
        encoding, (height, width) = self._encoding, self.format.size
        try:
            stream = container.add_stream(
                encoding.encoder, rate=_RATE, options=dict(encoding.options)
            )
            assert isinstance(stream, VideoStream)
            stream.time_base = Fraction(1, self._times.ticks_per_second)
            stream.height, stream.width = height, width
            stream.pix_fmt = encoding.pixel_format
            context = stream.codec_context
            context.time_base, context.thread_count = Fraction(1, _RATE), 1
            context.gop_size, context.max_b_frames = self.format.gop, 0
            context.colorspace, context.color_range = self.format.color
            if encoding.tag is not None:
                context.codec_tag = encoding.tag
            context.open()
            # Set after `open`: it is for players, and must not change the shared parameter sets.
            stream.sample_aspect_ratio = self.format.pixel_aspect
        except (av.error.FFmpegError, ValueError) as error:
            self._remove()
            raise BackendError(
                f"cannot encode a proxy of {height}x{width} (height x width): {encoding.encoder} "
                "does not support this size; choose another --size or --codec"
            ) from error
        return stream

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (av.error.FFmpegError, OSError) as error:
            self._remove()
            reason = (error.strerror or str(error)).lower()
            raise ConfigError(
                f"cannot write {self.path}: {reason}; free disk space, or give another folder "
                "with -o"
            ) from error

    def _remove(self) -> None:
        # Closed without flushing: FFmpeg crashes on a packet after a failed write.
        container, self._container = self._container, None
        with suppress(av.error.FFmpegError, OSError):
            if container is not None:
                container.close()
        with suppress(OSError):
            self.path.unlink()


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


def read_back(file: ProxyFile, index: StreamIndex, frames: int, lost: list[int]) -> ProxyPackets:
    """Return the packet table of a file, after a check that its frames are the compared ones."""
    fault: Exception | None = None
    try:
        packets = packets_of(file.path, file.format, lost)
        is_complete = len(packets.offsets) == frames
        if is_complete and list(digests_of(file.path, packets)) == file.digests:
            return packets
    except (av.error.FFmpegError, MediaError, OSError) as error:
        fault = error
    file.path.unlink(missing_ok=True)
    reason = reason_of(fault) if isinstance(fault, OSError) else fault and first_line(fault)
    detail = f" ({reason})" if reason else ""
    raise StageError(
        f"the proxy of {index.source} was read back with errors from {file.path}{detail}; check "
        "the disk, and run the same command again",
        stage="compare",
    ) from fault
