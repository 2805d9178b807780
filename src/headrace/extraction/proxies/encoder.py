"""Encoder of proxies: encodes frames, writes an MP4, and decodes it for comparison."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final, Literal

import av
import numpy as np
from av.container import OutputContainer
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.errors import BackendError, ConfigError
from headrace.extraction.proxies.quality import QualityMeter
from headrace.video.content_digest import digest_of
from headrace.video.frame_format import TAG_BYTES
from headrace.video.pyav_version import ONE_THREAD, check_full
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


Codec = Literal["h264", "hevc", "av1", "mjpeg"]
_JPEG_SCALE: Final = 3
"""FFmpeg's quality scale of JPEG, from 2, the best, to 31."""
_DECODERS: Final = {"av1": "libdav1d"}
"""Decoders of codecs for which FFmpeg's default needs hardware."""
_LAMBDA: Final = 118
"""FFmpeg's unit of the quality scale."""


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """Encoder settings of one codec, independent of the video, with one thread.

    All proxies of one size and color therefore have equal parameter sets, and can share a decoder.
    """

    encoder: str
    """FFmpeg's name."""
    options: Mapping[str, str]
    pixel_format: str = "yuv420p"
    tag: str | None = None
    """Track tag, if FFmpeg's default is supported by fewer players."""
    color: tuple[int, int] | None = None
    """(matrix, range) that the codec can signal; None: any."""


def encoding_of(codec: Codec, gop: int) -> Encoding:
    """Return the settings for closed GOPs of `gop` frames, without B-frames."""
    grouping = f"keyint={gop}:min-keyint={gop}:scenecut=0:bframes=0:open-gop=0"
    encodings = {
        "h264": Encoding(
            encoder="libx264",
            options={
                "preset": "veryfast",
                "tune": "fastdecode",
                "crf": "20",
                # With MB-tree and AVX-512, the output of x264 core 165 is not deterministic.
                "x264-params": f"{grouping}:threads=1:mbtree=0",
            },
        ),
        "hevc": Encoding(
            encoder="libx265",
            options={
                "preset": "veryfast",
                "crf": "22",
                "x265-params": f"{grouping}:pools=none:frame-threads=1:log-level=error:info=0",
            },
            tag="hvc1",
        ),
        "av1": Encoding(
            encoder="libsvtav1",
            options={
                "preset": "10",
                "crf": "30",
                "svtav1-params": f"keyint={gop}:irefresh-type=2:pred-struct=1:scd=0:lp=1",
            },
        ),
        "mjpeg": Encoding(
            encoder="mjpeg",
            options={"flags": "+qscale", "global_quality": str(_LAMBDA * _JPEG_SCALE)},
            pixel_format="yuvj420p",
            color=(Colorspace.ITU601, ColorRange.JPEG),
        ),
    }
    return encodings[codec]


def new_decoder(codec: str, extradata: bytes | None) -> VideoCodecContext:
    """Return a decoder of proxies, with one thread."""
    decoder = av.CodecContext.create(_DECODERS.get(codec, codec), "r")
    assert isinstance(decoder, VideoCodecContext)
    decoder.extradata, decoder.thread_count = extradata or None, 1
    return decoder


def check_encoder(codec: Codec) -> None:
    """Check that FFmpeg has an encoder for `codec`, and that PyAV is recent enough.

    Raises:
        BackendError: FFmpeg has no encoder for it; the message names the available codecs. Or PyAV
            is too old.
    """
    check_full("making proxies", "make them on another machine: any PyAV reads them")
    names: tuple[Codec, ...] = ("h264", "hevc", "av1", "mjpeg")
    available = [name for name in names if encoding_of(name, 1).encoder in av.codecs_available]
    if codec not in available:
        raise BackendError(
            f"this FFmpeg has no encoder for {codec} ({encoding_of(codec, 1).encoder}); available "
            f"codecs: {', '.join(available) or 'none'}; PyAV's wheel has all of them "
            "(pip install av)"
        )


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
