"""Where results go: an annotated video that browsers play."""

from fractions import Fraction
from pathlib import Path
from types import TracebackType

import av
import numpy as np
from av.container import OutputContainer
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream
from numpy.typing import NDArray

from headrace.errors import ConfigError

_TIME_BASE = Fraction(1, 90_000)


class VideoFile:
    """Writes frames to an MP4 with H.264 (yuv420p, BT.709, index in front).

    Frames keep their own times, so a video with a varying frame rate stays one. What was written
    plays even when the run ends early, once `close` was called. Not thread-safe.
    """

    def __init__(self, path: Path, frame_rate: Fraction) -> None:
        """Open the file; its first frame decides the size."""
        self.path = path
        self._rate = frame_rate
        try:
            # FFmpeg opens the file with the first frame only: too late to learn that it cannot.
            path.open("wb").close()
            self._container: OutputContainer = av.open(
                str(path), "w", format="mp4", options={"movflags": "+faststart"}
            )
        except (av.error.FFmpegError, OSError) as error:
            raise ConfigError(
                f"cannot write {path}: {error.strerror or error}; give another folder with --out"
            ) from error
        self._stream: VideoStream | None = None
        self._last_pts = -1

    def write(self, frame: NDArray[np.uint8], pts_seconds: float) -> None:
        """Append one frame, uint8 [H, W, 3] RGB; an odd row or column is repeated to be even."""
        height, width = frame.shape[:2]
        if height % 2 or width % 2:
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        stream = self._stream = self._stream or self._add_stream(frame.shape[0], frame.shape[1])
        picture = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(
            format="yuv420p",
            dst_colorspace=Colorspace.ITU709,
            dst_color_range=ColorRange.MPEG,
        )
        pts = max(round(pts_seconds / _TIME_BASE), self._last_pts + 1)
        self._last_pts = picture.pts = pts
        picture.time_base = _TIME_BASE
        self._container.mux(stream.encode(picture))

    def close(self) -> None:
        """Finish the file; harmless when called again."""
        if self._stream is not None:
            self._container.mux(self._stream.encode(None))
            self._stream = None
        self._container.close()

    def __enter__(self) -> "VideoFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _add_stream(self, height: int, width: int) -> VideoStream:
        rate = self._rate if self._rate > 0 else Fraction(25)
        stream = self._container.add_stream(
            "libx264",
            rate=rate.limit_denominator(1001),
            options={"preset": "veryfast", "crf": "23"},
        )
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        stream.time_base = _TIME_BASE
        context = stream.codec_context
        context.time_base = _TIME_BASE
        context.colorspace, context.color_range = 1, 1
        context.color_primaries, context.color_trc = 1, 1
        return stream
