"""Videos with what the model saw burnt into frames as they came: a file for each source."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError
from headrace.extraction.image_reader import ImageBatch
from headrace.sinks.batch_results import ClassifiedBatch, DetectedBatch
from headrace.sinks.painting import BoxPainter, LabelPainter, Painter
from headrace.sinks.predictions import writing
from headrace.sinks.video_file import VideoFile
from headrace.video.stream_index import StreamIndex

Drawn = TypeVar("Drawn", ClassifiedBatch, DetectedBatch)


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

    def write(self, seen: ClassifiedBatch | DetectedBatch) -> None:
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


FOLDER: Final = "annotated"
"""In the folder of a run."""
_FORMATS: Final = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_QUALITY: Final = 90


class AnnotatedPictures:
    """Writes each picture with its boxes under its own name: a `SinkOf[Found]`.

    The format is that of the name's suffix. Each file is there whole or not at all.
    """

    def __init__(self, folder: Path) -> None:
        """Nothing is written before the first picture; files that lie there are replaced.

        Args:
            folder: In which `FOLDER` is made.
        """
        self._folder = folder
        self._has_written = False

    def write(self, seen: DetectedBatch) -> None:
        """Draw and write the pictures of a batch: see `SinkOf.write`."""
        batch = seen.batch
        if not isinstance(batch, ImageBatch):
            raise ConfigError("pictures are annotated here, got frames of a video")
        height, width = batch.frames.shape[1:3]
        drawn = BoxPainter((height, width)).paint(seen)
        for picture, pixels in zip(batch.pictures, drawn, strict=True):
            path = self._folder / FOLDER / picture.name
            partial = partial_of(path)
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                partial.write_bytes(_encoded(pixels, path))
                partial.replace(path)
            self._has_written = True

    def close(self) -> None:
        """Nothing is open: see `SinkOf.close`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Their folder, if it holds one."""
        return (f"{FOLDER}/",) if self._has_written else ()


def _encoded(pixels: NDArray[np.uint8], path: Path) -> bytes:
    kind = _FORMATS[path.suffix.lower()]
    options: dict[str, Any] = {} if kind == "PNG" else {"quality": _QUALITY}
    with BytesIO() as file:
        Image.fromarray(pixels).save(file, kind, **options)
        return file.getvalue()
