"""H.264 file that stays playable after any interruption."""

import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

import av
import numpy as np
from av.codec.codec import UnknownCodecError
from av.container import OutputContainer
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.atomic_file import partial_of
from headrace.errors import BackendError, ConfigError

_HEADER: Final = 8
"""Bytes of an MP4 box header."""
_LONG_HEADER: Final = 16
"""Bytes of a header with a 64-bit size."""


def truncate_to_fragments(path: Path) -> bool:
    """Truncate a fragmented MP4 after its last complete fragment; return whether there is one.

    Reads box headers only.
    """
    with path.open("r+b") as file:
        end_of_data = max((end for kind, end in _boxes(file) if kind == b"mdat"), default=0)
        if end_of_data:
            file.truncate(end_of_data)
    return end_of_data > 0


def _boxes(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yield the kind and end of each complete top-level box."""
    length = file.seek(0, os.SEEK_END)
    start = 0
    while start + _HEADER <= length:
        file.seek(start)
        header = file.read(_LONG_HEADER)
        size, kind = struct.unpack(">I4s", header[:_HEADER])
        if size == 1 and len(header) == _LONG_HEADER:
            (size,) = struct.unpack(">Q", header[_HEADER:])
        if size < _HEADER or start + size > length:
            return
        start += size
        yield kind, start


_ENCODER: Final = "libx264"
_TIME_BASE = Fraction(1, 90_000)
_BT709 = 1
# Flushed: a fragment of a static scene is smaller than FFmpeg's buffer.
_FLAGS: Final = {"movflags": "+hybrid_fragmented+frag_keyframe", "flush_packets": "1"}
_MAX_IN_FRAGMENT: Final = 60
"""Max frames of a fragment: two seconds, the loss in a power cut."""
_GOP_OPTIONS: Final = {"g": str(_MAX_IN_FRAGMENT), "bf": "0"}
"""Each fragment starts at a keyframe. No B-frames: they would delay its last frames."""


class VideoFile:
    """Fragmented MP4 with H.264 (yuv420p, BT.709).

    Frames keep their times, so variable frame rates stay variable. At any time, even after a power
    cut, the file plays up to its last few seconds; on a full disk, the playable part is kept. A
    file without frames is removed. Not thread-safe.
    """

    def __init__(self, path: Path, frame_rate: Fraction, *, is_endless: bool = False) -> None:
        """Open the file; its first frame sets the size.

        Args:
            path: Path of the file; an existing file is replaced.
            frame_rate: Average frames per second; 0: unknown.
            is_endless: Whether the recording may be very long. If so, the index follows the frames;
                otherwise `close` rewrites the file with the index first, given enough disk space.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.path = path
        self._rate = frame_rate if frame_rate > 0 else Fraction(25)
        self._is_endless = is_endless
        self._stream: VideoStream | None = None
        self._first_pts = self._last_pts = -1
        try:
            # FFmpeg opens the file with the first frame; check now that this is possible.
            path.open("wb").close()
            self._container: OutputContainer | None = av.open(
                str(path), "w", format="mp4", options=_FLAGS
            )
        except (av.error.FFmpegError, OSError) as error:
            raise _write_error(path, error) from error

    def write(self, frame: NDArray[np.uint8], pts_seconds: float) -> None:
        """Append one frame, uint8 [H, W, 3] RGB; odd sizes are padded by an edge row or column.

        Raises:
            ConfigError: the file cannot be written.
            BackendError: the encoder does not support this size.
        """
        if self._container is None:
            raise ConfigError(f"cannot write a frame to {self.path}: it is closed")
        height, width = frame.shape[:2]
        if height % 2 or width % 2:
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        stream = self._stream or self._add_stream(self._container, frame.shape[0], frame.shape[1])
        self._stream = stream
        encoded = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(
            format="yuv420p",
            dst_colorspace=Colorspace.ITU709,
            dst_color_range=ColorRange.MPEG,
        )
        self._last_pts = max(round(pts_seconds / _TIME_BASE), self._last_pts + 1)
        if self._first_pts < 0:
            self._first_pts = self._last_pts
        encoded.pts, encoded.time_base = self._last_pts, _TIME_BASE
        with self._writing():
            self._container.mux(stream.encode(encoded))

    def close(self) -> None:
        """Finish the file; idempotent.

        Raises:
            ConfigError: the file cannot be written.
        """
        if self._container is None:
            return
        if self._stream is None:
            self._remove()
            return
        with self._writing():
            self._container.mux(self._stream.encode(None))
            self._container.close()
            self._container = None
        if not self._is_endless:
            _put_index_in_front(self.path, self._first_pts)

    def __enter__(self) -> "VideoFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            # The first error is raised.
            with suppress(ConfigError):
                self.close()

    def _add_stream(self, container: OutputContainer, height: int, width: int) -> VideoStream:
        try:
            stream = container.add_stream(
                _ENCODER,
                rate=self._rate.limit_denominator(1001) or Fraction(1),
                options={"preset": "veryfast", "crf": "23", **_GOP_OPTIONS},
            )
            stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
            stream.time_base = _TIME_BASE
            context = stream.codec_context
            context.time_base = _TIME_BASE
            context.colorspace, context.color_range = _BT709, ColorRange.MPEG
            context.color_primaries, context.color_trc = _BT709, _BT709
            context.open()
        except (av.error.FFmpegError, UnknownCodecError) as error:
            raise BackendError(
                f"cannot write {self.path}: this FFmpeg cannot encode frames of {height}x{width} "
                f"(height x width) with {_ENCODER}; PyAV's wheel has this encoder (pip install av) "
                "for at most 16384 pixels per side"
            ) from error
        return stream

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (av.error.FFmpegError, OSError) as error:
            state = "the written part plays" if self._remove() else "it was removed"
            raise _write_error(self.path, error, f"; {state}") from error

    def _remove(self) -> bool:
        """Close the file and keep its playable part; return whether there is one."""
        # Close without flushing: FFmpeg crashes on a packet after a failed write.
        container, self._container = self._container, None
        with suppress(av.error.FFmpegError, OSError):
            if container is not None:
                container.close()
        with suppress(OSError):
            if truncate_to_fragments(self.path):
                return True
            self.path.unlink()
        return False


def _put_index_in_front(path: Path, first_pts: int) -> None:
    """Rewrite the file with its index first; without enough disk space, leave it unchanged.

    Fragments start at 0; in the new file the first frame is at `first_pts`, in ticks of 90 kHz.
    """
    partial = partial_of(path)
    try:
        if shutil.disk_usage(path.parent).free < 2 * path.stat().st_size:
            return
        with (
            av.open(str(path)) as source,
            av.open(str(partial), "w", format="mp4", options={"movflags": "+faststart"}) as copy,
        ):
            stream = copy.add_stream_from_template(source.streams.video[0])
            start: int | None = None
            for packet in source.demux(video=0):
                if packet.pts is not None and packet.dts is not None:
                    start = packet.pts if start is None else start
                    shift = round(first_pts * _TIME_BASE / packet.time_base) - start
                    packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                    packet.stream = stream
                    copy.mux(packet)
        partial.replace(path)
    except (av.error.FFmpegError, OSError):
        return
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _write_error(path: Path, error: av.error.FFmpegError | OSError, more: str = "") -> ConfigError:
    reason = (error.strerror or str(error)).lower()
    return ConfigError(f"cannot write {path}: {reason}{more}; give another folder with --out")
