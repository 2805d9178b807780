"""An annotated video that browsers play."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Final

import av
import numpy as np
from av.codec.codec import UnknownCodecError
from av.container import OutputContainer
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.errors import BackendError, ConfigError
from headrace.sinks.fragments import keep_whole_fragments

_ENCODER: Final = "libx264"
_TIME_BASE = Fraction(1, 90_000)
_BT709 = 1
_FLAGS: Final[dict[bool, dict[str, str]]] = {
    False: {"movflags": "+faststart"},
    # Flushed, since a fragment of a quiet scene is smaller than what FFmpeg holds back.
    True: {"movflags": "+hybrid_fragmented+frag_keyframe", "flush_packets": "1"},
}
_MOST_IN_FRAGMENT: Final = 60
"""Frames that are lost at most when the power is cut: two seconds of them."""


class VideoFile:
    """Writes frames to an MP4 with H.264 (yuv420p, BT.709, index in front).

    Frames keep their own times, so a video with a varying frame rate stays one. What was written
    plays even when the run ends early, once `close` was called; a file that holds no frame or
    cannot be finished (a full disk) plays nowhere, and is removed. One that `is_recoverable` plays
    at any moment, up to some seconds before: also after a power cut, and on a full disk what plays
    is kept. Not thread-safe.
    """

    def __init__(self, path: Path, frame_rate: Fraction, *, is_recoverable: bool = False) -> None:
        """Open the file; its first frame decides the size.

        Args:
            path: Where it lies; a file that lies there is replaced.
            frame_rate: Average frames per second; 0 where it is not known.
            is_recoverable: Write it in fragments, for recordings without an end. Its index comes
                behind the frames, and closing moves none, however long it is; else closing writes
                the whole file again, to put the index in front.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.path = path
        self._rate = frame_rate if frame_rate > 0 else Fraction(25)
        self._is_recoverable = is_recoverable
        self._stream: VideoStream | None = None
        self._last_pts = -1
        try:
            # FFmpeg opens the file with the first frame only: too late to learn that it cannot.
            path.open("wb").close()
            self._container: OutputContainer | None = av.open(
                str(path), "w", format="mp4", options=_FLAGS[is_recoverable]
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
                options={"preset": "veryfast", "crf": "23", **self._grouping()},
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

    def _grouping(self) -> dict[str, str]:
        """A fragment begins at a keyframe. B-frames would come out of it later than they are."""
        return {"g": str(_MOST_IN_FRAGMENT), "bf": "0"} if self._is_recoverable else {}

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (av.error.FFmpegError, OSError) as error:
            self._remove()
            raise _unwritable(self.path, error) from error

    def _remove(self) -> None:
        # Only closed: FFmpeg crashes when a packet follows one that could not be written.
        container, self._container = self._container, None
        with suppress(av.error.FFmpegError, OSError):
            if container is not None:
                container.close()
        with suppress(OSError):
            if not (self._is_recoverable and keep_whole_fragments(self.path)):
                self.path.unlink()


def _unwritable(path: Path, error: av.error.FFmpegError | OSError) -> ConfigError:
    reason = (error.strerror or str(error)).lower()
    return ConfigError(f"cannot write {path}: {reason}; give another folder with --out")
