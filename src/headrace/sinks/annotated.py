"""A video with what the model saw burnt into each frame."""

from pathlib import Path

from headrace.sinks.caption import captions
from headrace.sinks.overlay import Overlay
from headrace.sinks.seen import Seen
from headrace.sinks.video_file import VideoFile
from headrace.video.stream_index import StreamIndex

NAME = "annotated.mp4"
"""The file in the folder of a run."""


class AnnotatedVideo:
    """Draws each frame's label and writes it at the frame's own time: a `Sink`."""

    def __init__(self, folder: Path, index: StreamIndex) -> None:
        """Open the file in `folder`; times in it count from the first frame of the video.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._video = VideoFile(folder / NAME, index.frame_rate)
        self._overlay = Overlay(index.info.upright_size)
        self._start_seconds = index.seconds(0)

    def write(self, seen: Seen) -> None:
        """Draw and append the frames of a batch: see `Sink.write`."""
        batch = seen.batch
        shown_at = batch.pts_seconds - self._start_seconds
        for frame, caption, seconds in zip(batch.frames, captions(seen), shown_at, strict=True):
            self._video.write(self._overlay.draw(frame, caption.label, caption.note), seconds)

    def close(self) -> None:
        """Finish the file: see `Sink.close`."""
        self._video.close()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The file, if it holds a frame."""
        return (NAME,) if self._video.path.exists() else ()
