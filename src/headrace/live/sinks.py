"""Where results go: an annotated video that browsers play."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType

import av
import numpy as np
from av.container import OutputContainer
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.errors import BackendError, ConfigError

_TIME_BASE = Fraction(1, 90_000)
_ENCODER = "libx264"
_BT709 = 1


class VideoFile:
    """Writes frames to an MP4 with H.264 (yuv420p, BT.709, index in front).

    Frames keep their own times, so a video with a varying frame rate stays one. What was written
    plays even when the run ends early, once `close` was called. Not thread-safe.
    """

    def __init__(self, path: Path, frame_rate: Fraction) -> None:
        """Open the file; its first frame decides the size.

        Args:
            path: Where it lies; a file that lies there is replaced.
            frame_rate: Average frames per second; 0 where it is not known.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.path = path
        self.num_frames = 0
        """Frames written so far; a file without any is removed by `close`."""
        self._rate = frame_rate if frame_rate > 0 else Fraction(25)
        self._stream: VideoStream | None = None
        self._last_pts = -1
        with self._explained():
            # FFmpeg opens the file with the first frame only: too late to learn that it cannot.
            path.open("wb").close()
            self._container: OutputContainer = av.open(
                str(path), "w", format="mp4", options={"movflags": "+faststart"}
            )

    def write(self, frame: NDArray[np.uint8], pts_seconds: float) -> None:
        """Append one frame, uint8 [H, W, 3] RGB; an odd row or column is repeated to be even.

        Raises:
            ConfigError: the file cannot be written; only `close` may follow.
            BackendError: there is no encoder for such frames.
        """
        height, width = frame.shape[:2]
        if height % 2 or width % 2:
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        stream = self._stream or self._add_stream(frame.shape[0], frame.shape[1])
        picture = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(
            format="yuv420p",
            dst_colorspace=Colorspace.ITU709,
            dst_color_range=ColorRange.MPEG,
        )
        self._last_pts = max(round(pts_seconds / _TIME_BASE), self._last_pts + 1)
        picture.pts, picture.time_base = self._last_pts, _TIME_BASE
        # FFmpeg crashes when a packet follows one that could not be written.
        self._stream = None
        with self._explained():
            self._container.mux(stream.encode(picture))
        self._stream = stream
        self.num_frames += 1

    def close(self) -> None:
        """Finish the file; harmless when called again.

        Raises:
            ConfigError: the file cannot be written.
        """
        stream, self._stream = self._stream, None
        with self._explained():
            try:
                if stream is not None:
                    self._container.mux(stream.encode(None))
            finally:
                self._container.close()
                if not self.num_frames:
                    self.path.unlink(missing_ok=True)

    def __enter__(self) -> "VideoFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # What went wrong first is what the user must hear of.
        with suppress(ConfigError if error is not None else ()):
            self.close()

    def _add_stream(self, height: int, width: int) -> VideoStream:
        try:
            stream = self._container.add_stream(
                _ENCODER,
                rate=self._rate.limit_denominator(1001) or Fraction(1),
                options={"preset": "veryfast", "crf": "23"},
            )
            stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
            stream.time_base = _TIME_BASE
            context = stream.codec_context
            context.time_base = _TIME_BASE
            context.colorspace, context.color_range = _BT709, ColorRange.MPEG
            context.color_primaries, context.color_trc = _BT709, _BT709
            context.open()
        except (av.error.FFmpegError, ValueError) as error:
            raise BackendError(
                f"cannot encode {self.path}: the H.264 encoder {_ENCODER} cannot be opened for "
                f"frames of {height}x{width} (height x width); install PyAV's own wheel (pip "
                "install av), which brings it, or take a video of at most 16384 pixels a side"
            ) from error
        return stream

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (av.error.FFmpegError, OSError) as error:
            reason = (error.strerror or str(error)).lower()
            raise ConfigError(
                f"cannot write {self.path}: {reason}; give another folder with --out"
            ) from error
