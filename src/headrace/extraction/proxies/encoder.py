"""A proxy as it is written: frames encoded, put into an MP4, and decoded again to be compared."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Final

import av
import numpy as np
from av.container import OutputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.errors import BackendError, ConfigError
from headrace.extraction.proxies.codecs import Codec, encoding_of, new_decoder
from headrace.extraction.proxies.likeness import Likeness
from headrace.extraction.proxies.times import PlayTimes
from headrace.video.planes import digest_of
from headrace.video.shape import TAG_BYTES

_RATE: Final = 25
"""Frames per second that encoders are told, whatever the video's: what they tell a decoder depends
on it, and shall not differ. Players go by the times of the packets."""

_EXACT: Final = 0x4 | 0x40000
"""swscale flags: bicubic and rounded, a grey level nearer."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a proxy is made of, and how a decoder will see it."""

    size: tuple[int, int]
    """(height, width)."""
    codec: Codec
    gop: int
    colour: tuple[int, int]
    """(matrix, range): the codes of FFmpeg."""
    pixel_aspect: Fraction
    """Width ÷ height of a pixel, for players."""

    @classmethod
    def of(
        cls,
        codec: Codec,
        gop: int,
        size: tuple[int, int],
        colour: tuple[int, int],
        pixel_aspect: Fraction,
    ) -> "Look":
        """Return the look of a proxy whose original has that colour, where the codec can say so."""
        said = encoding_of(codec, gop).colour
        return cls(
            size=size, codec=codec, gop=gop, colour=said or colour, pixel_aspect=pixel_aspect
        )


class ProxyFile:
    """Writes one proxy. A file that is not finished is removed. Not thread-safe.

    with ProxyFile(path, look, times) as file:
        file.write(packed)      # for each frame
        file.finish()
    """

    def __init__(self, path: Path, look: Look, times: PlayTimes) -> None:
        """Open the file.

        Raises:
            ConfigError: it cannot be written.
            BackendError: there is no encoder for frames of this size.
        """
        self.path = path
        self.look = look
        self.digests: list[int] = []
        """Of each frame as a decoder shows it."""
        self._times = times
        self._encoding = encoding_of(look.codec, look.gop)
        self.likeness = Likeness(look.size, self._encoding.pixel_format)
        self._scaler = VideoReformatter()
        self._given: deque[VideoFrame] = deque()
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
        self._decoder = new_decoder(look.codec, self._stream.codec_context.extradata)

    def write(self, packed: NDArray[np.uint8]) -> "list[Packet[VideoStream]]":
        """Append a frame, uint8 [packed bytes] of YUV 4:2:0 as a decoder packs it.

        Returns:
            What is to be compared.

        Raises:
            ConfigError: the file cannot be written.
        """
        frame = self._frame(packed)
        self._given.append(frame)
        frame.pts, frame.time_base = self._frames, Fraction(1, _RATE)
        self._frames += 1
        return self._encode(frame)

    def finish(self) -> "list[Packet[VideoStream]]":
        """Write what the encoder holds back, and close the file; return what is to be compared.

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
        """Decode what was written, and hold it against what was given."""
        for packet in packets if self._container else (*packets, None):
            for frame in self._decoder.decode(packet):
                self.digests.append(digest_of(frame))
                self.likeness.compare(self._given.popleft(), frame)
        if self._container is None:
            self.likeness.finish()

    def __enter__(self) -> "ProxyFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
        """Return a frame in the colours of the proxy."""
        height, width = self.look.size
        planes = packed[:-TAG_BYTES].reshape(height * 3 // 2, width)
        frame = VideoFrame.from_ndarray(planes, format="yuv420p")
        matrix, span = packed[-TAG_BYTES:].tolist()
        if (matrix, span) != self.look.colour:
            frame = self._scaler.reformat(
                frame,
                format=self._encoding.pixel_format,
                src_colorspace=matrix,
                src_color_range=span,
                dst_colorspace=self.look.colour[0],
                dst_color_range=self.look.colour[1],
                interpolation=_EXACT,
                threads=1,
            )
        frame.colorspace, frame.color_range = self.look.colour
        return frame

    def _add_stream(self, container: OutputContainer) -> VideoStream:
        encoding, (height, width) = self._encoding, self.look.size
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
            context.gop_size, context.max_b_frames = self.look.gop, 0
            context.colorspace, context.color_range = self.look.colour
            if encoding.tag is not None:
                context.codec_tag = encoding.tag
            context.open()
            # Only now: players hear of it, decoders do not, and may be shared.
            stream.sample_aspect_ratio = self.look.pixel_aspect
        except (av.error.FFmpegError, ValueError) as error:
            self._remove()
            raise BackendError(
                f"cannot make a proxy of {height}x{width} (height x width): {encoding.encoder} "
                "refuses that size; choose another --size or --codec"
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
                f"cannot write {self.path}: {reason}; make room, or give another folder with -o"
            ) from error

    def _remove(self) -> None:
        # Only closed: FFmpeg crashes when a packet follows one that could not be written.
        container, self._container = self._container, None
        with suppress(av.error.FFmpegError, OSError):
            if container is not None:
                container.close()
        with suppress(OSError):
            self.path.unlink()
