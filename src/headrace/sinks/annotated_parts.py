"""Videos with what the model saw burnt into frames as they came: a file for each source."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError
from headrace.sinks.painting import LabelPainter, Painter
from headrace.sinks.seen import Found, Seen
from headrace.sinks.video_file import VideoFile


class _Part:
    """One file: frames of one size whose times go up."""

    def __init__(
        self, path: Path, painter: Painter[Any], size: tuple[int, int], start_seconds: float
    ) -> None:
        self.video = VideoFile(path, Fraction(0), is_endless=True)
        self.painter = painter
        self.size = size
        self.start_seconds = self.last_seconds = start_seconds


class AnnotatedParts:
    """Draws what was seen on each frame and writes it at the frame's own time: a `Sink`.

    Files are `annotated.mp4` for one source, `annotated-0.mp4`, `annotated-1.mp4`... for several.
    Where the size changes, or times begin anew, another file goes on: `annotated-0.2.mp4`. What was
    written until then plays, however the run ends.
    """

    def __init__(
        self,
        folder: Path,
        sources: int,
        painter: Callable[[tuple[int, int]], Painter[Any]] = LabelPainter,
    ) -> None:
        """Nothing is opened before the first frame of a source.

        Args:
            folder: Where they lie; files that lie there are replaced.
            sources: How many there are.
            painter: Makes what draws on frames of a size: `LabelPainter`, `BoxPainter`.
        """
        self._folder = folder
        self._sources = sources
        self._painter = painter
        self._open: dict[int, _Part] = {}
        self._paths: list[Path] = []
        self._counts: dict[int, int] = {}

    def write(self, seen: Seen | Found) -> None:
        """Draw and append the frames: see `Sink.write`."""
        batch = seen.batch
        height, width = batch.frames.shape[1:3]
        for k, shown_at in enumerate(batch.pts_seconds):
            seconds = float(shown_at)
            part = self._part(batch.video, (height, width), seconds)
            part.video.write(part.painter.paint_one(seen, k), seconds - part.start_seconds)
            part.last_seconds = seconds

    def close(self) -> None:
        """Finish the files: see `Sink.close`; what went wrong first is what is raised."""
        failures: list[ConfigError] = []
        for part in self._open.values():
            try:
                part.video.close()
            except ConfigError as error:
                failures.append(error)
        self._open.clear()
        if failures:
            raise failures[0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that hold a frame."""
        return tuple(path.name for path in self._paths if path.exists())

    def _part(self, source: int, size: tuple[int, int], seconds: float) -> _Part:
        part = self._open.get(source)
        if part is not None and part.size == size and seconds >= part.last_seconds:
            return part
        if part is not None:
            part.video.close()
        number = self._counts[source] = self._counts.get(source, 0) + 1
        which = f"-{source}" if self._sources > 1 else ""
        path = self._folder / f"annotated{which}{f'.{number}' if number > 1 else ''}.mp4"
        self._paths.append(path)
        part = self._open[source] = _Part(path, self._painter(size), size, seconds)
        return part
