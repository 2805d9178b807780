"""An H.264 file that plays however its writing ends."""

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

_HEAD: Final = 8
_LONG_HEAD: Final = 16


def keep_whole_fragments(path: Path) -> bool:
    """Cut a fragmented MP4 behind its last whole fragment; say whether there is one.

    Reads the heads of its boxes only.
    """
    with path.open("r+b") as file:
        whole = max((end for kind, end in _boxes(file) if kind == b"mdat"), default=0)
        if whole:
            file.truncate(whole)
    return whole > 0


def _boxes(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yield kind and end of each whole box at the top."""
    length = file.seek(0, os.SEEK_END)
    start = 0
    while start + _HEAD <= length:
        file.seek(start)
        head = file.read(_LONG_HEAD)
        size, kind = struct.unpack(">I4s", head[:_HEAD])
        if size == 1 and len(head) == _LONG_HEAD:
            (size,) = struct.unpack(">Q", head[_HEAD:])
        if size < _HEAD or start + size > length:
            return
        start += size
        yield kind, start


_ENCODER: Final = "libx264"
_TIME_BASE = Fraction(1, 90_000)
_BT709 = 1
# Flushed, since a fragment of a quiet scene is smaller than what FFmpeg holds back.
_FLAGS: Final = {"movflags": "+hybrid_fragmented+frag_keyframe", "flush_packets": "1"}
_MOST_IN_FRAGMENT: Final = 60
"""Frames that are lost at most when the power is cut: two seconds of them."""
_GROUPING: Final = {"g": str(_MOST_IN_FRAGMENT), "bf": "0"}
"""A fragment begins at a keyframe. B-frames would come out of it later than they are."""


class VideoFile:
    """Writes frames to an MP4 with H.264 (yuv420p, BT.709), in fragments.

    Frames keep their own times, so a video with a varying frame rate stays one. The file plays at
    any moment, up to some seconds before: also after a power cut, and on a full disk what plays is
    kept. One that holds no frame is removed. Not thread-safe.
    """

    def __init__(self, path: Path, frame_rate: Fraction, *, is_endless: bool = False) -> None:
        """Open the file; its first frame decides the size.

        Args:
            path: Where it lies; a file that lies there is replaced.
            frame_rate: Average frames per second; 0 where it is not known.
            is_endless: It is a recording without an end: its index comes behind the frames, and
                closing moves none, however long it is. Else closing writes the whole file again, to
                put the index in front, where there is room for that.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.path = path
        self._rate = frame_rate if frame_rate > 0 else Fraction(25)
        self._is_endless = is_endless
        self._stream: VideoStream | None = None
        self._first_pts = self._last_pts = -1
        try:
            # FFmpeg opens the file with the first frame only: too late to learn that it cannot.
            path.open("wb").close()
            self._container: OutputContainer | None = av.open(
                str(path), "w", format="mp4", options=_FLAGS
            )
        except (av.error.FFmpegError, OSError) as error:
            raise _unwritable(path, error) from error

    def write(self, frame: NDArray[np.uint8], pts_seconds: float) -> None:
        """Append one frame, uint8 [H, W, 3] RGB; an odd row or column is repeated to be even.

        Raises:
            ConfigError: the file cannot be written.
            BackendError: there is no encoder for frames of this size.
        """
        if self._container is None:
            raise ConfigError(f"cannot write a frame to {self.path}: it is closed")
        height, width = frame.shape[:2]
        if height % 2 or width % 2:
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        stream = self._stream or self._add_stream(self._container, frame.shape[0], frame.shape[1])
        self._stream = stream
        picture = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(
            format="yuv420p",
            dst_colorspace=Colorspace.ITU709,
            dst_color_range=ColorRange.MPEG,
        )
        self._last_pts = max(round(pts_seconds / _TIME_BASE), self._last_pts + 1)
        if self._first_pts < 0:
            self._first_pts = self._last_pts
        picture.pts, picture.time_base = self._last_pts, _TIME_BASE
        with self._writing():
            self._container.mux(stream.encode(picture))

    def close(self) -> None:
        """Finish the file; harmless when called again.

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
            # What went wrong first is what the user must hear of.
            with suppress(ConfigError):
                self.close()

    def _add_stream(self, container: OutputContainer, height: int, width: int) -> VideoStream:
        try:
            stream = container.add_stream(
                _ENCODER,
                rate=self._rate.limit_denominator(1001) or Fraction(1),
                options={"preset": "veryfast", "crf": "23", **_GROUPING},
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
                f"(height x width) with {_ENCODER}; PyAV's own wheel brings it (pip install av), "
                "for at most 16384 pixels a side"
            ) from error
        return stream

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (av.error.FFmpegError, OSError) as error:
            kept = "what was written before plays" if self._remove() else "nothing of it is kept"
            raise _unwritable(self.path, error, f"; {kept}") from error

    def _remove(self) -> bool:
        """Close the file; keep what plays of it, and say whether something does."""
        # Only closed: FFmpeg crashes when a packet follows one that could not be written.
        container, self._container = self._container, None
        with suppress(av.error.FFmpegError, OSError):
            if container is not None:
                container.close()
        with suppress(OSError):
            if keep_whole_fragments(self.path):
                return True
            self.path.unlink()
        return False


def _put_index_in_front(path: Path, first_pts: int) -> None:
    """Write the file again with its index in front; where there is no room, it stays as it is.

    Fragments begin at 0; the second file has the first frame at `first_pts`, in ticks of 90 kHz.
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


def _unwritable(path: Path, error: av.error.FFmpegError | OSError, more: str = "") -> ConfigError:
    reason = (error.strerror or str(error)).lower()
    return ConfigError(f"cannot write {path}: {reason}{more}; give another folder with --out")
