"""Videos with what the model saw burnt into each frame, one for each that is read."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from headrace.sinks.painting import Painter
from headrace.sinks.seen import Found, Seen
from headrace.sinks.video_file import VideoFile
from headrace.video.stream_index import StreamIndex

Drawn = TypeVar("Drawn", Seen, Found)


def annotated_names(videos: int) -> tuple[str, ...]:
    """Return the files in the folder of a run: `annotated.mp4`, or `annotated-0.mp4`..."""
    if videos == 1:
        return ("annotated.mp4",)
    return tuple(f"annotated-{number}.mp4" for number in range(videos))


class AnnotatedVideo(Generic[Drawn]):
    """Draws what was seen on each frame and writes it at the frame's own time: a `SinkOf`.

    Videos are written one after the other, as they are read: the file of one is finished when the
    next begins. Times in a file count from the first frame of its video.
    """

    def __init__(
        self,
        folder: Path,
        indexes: Sequence[StreamIndex],
        painter: Callable[[tuple[int, int]], Painter[Drawn]],
    ) -> None:
        """Open the first file in `folder`.

        Args:
            folder: Where they lie; files that lie there are replaced.
            indexes: Of the videos, in order.
            painter: Makes what draws on frames of a size: `LabelPainter`, `BoxPainter`.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._folder = folder
        self._indexes = tuple(indexes)
        self._new_painter: Callable[[tuple[int, int]], Painter[Drawn]] = painter
        self._names = annotated_names(len(self._indexes))
        self._begun: list[str] = []
        self._begin(0)

    def write(self, seen: Drawn) -> None:
        """Draw and append the frames of a batch: see `SinkOf.write`."""
        batch = seen.batch
        if batch.video != self._number:
            self._video.close()
            self._begin(batch.video)
        shown_at = batch.pts_seconds - self._indexes[self._number].seconds(0)
        for picture, seconds in zip(self._painter.paint(seen), shown_at, strict=True):
            self._video.write(picture, seconds)

    def close(self) -> None:
        """Finish the file: see `SinkOf.close`."""
        self._video.close()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that hold a frame."""
        return tuple(name for name in self._begun if (self._folder / name).exists())

    def _begin(self, number: int) -> None:
        index, name = self._indexes[number], self._names[number]
        self._number = number
        self._video = VideoFile(self._folder / name, index.frame_rate)
        self._painter: Painter[Drawn] = self._new_painter(index.info.upright_size)
        self._begun.append(name)
