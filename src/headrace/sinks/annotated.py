"""Annotated videos and images: labels or boxes drawn on the frames."""

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

ResultsT = TypeVar("ResultsT", ClassifiedBatch, DetectedBatch)


def annotated_names(videos: int) -> tuple[str, ...]:
    """Return the file names: `annotated.mp4`, or `annotated-0.mp4`... for several videos."""
    if videos == 1:
        return ("annotated.mp4",)
    return tuple(f"annotated-{number}.mp4" for number in range(videos))


class AnnotatedVideo(Generic[ResultsT]):
    """Annotated videos of files, read one after the other: a `SinkOf`.

    Each frame keeps its time after the first frame of its video. A file is finished when the next
    video starts.
    """

    def __init__(
        self,
        folder: Path,
        indexes: Sequence[StreamIndex],
        painter: Callable[[tuple[int, int]], Painter[ResultsT]],
    ) -> None:
        """Open the first file in `folder`.

        Args:
            folder: Output folder; existing files are replaced.
            indexes: Indexes of the videos, in order.
            painter: Painter class: `LabelPainter` or `BoxPainter`.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._folder = folder
        self._indexes = tuple(indexes)
        self._new_painter: Callable[[tuple[int, int]], Painter[ResultsT]] = painter
        self._names = annotated_names(len(self._indexes))
        self._started: list[str] = []
        self._start(0)

    def write(self, results: ResultsT) -> None:
        """Draw and append the frames of a batch: see `SinkOf.write`."""
        batch = results.batch
        if batch.video != self._number:
            self._video.close()
            self._start(batch.video)
        seconds_of = batch.pts_seconds - self._indexes[self._number].seconds(0)
        for frame, seconds in zip(self._painter.paint(results), seconds_of, strict=True):
            self._video.write(frame, seconds)

    def close(self) -> None:
        """Finish the file: see `SinkOf.close`."""
        self._video.close()

    @property
    def outputs(self) -> tuple[str, ...]:
        """Files with at least one frame."""
        return tuple(name for name in self._started if (self._folder / name).exists())

    def _start(self, number: int) -> None:
        index, name = self._indexes[number], self._names[number]
        self._number = number
        self._video = VideoFile(self._folder / name, index.frame_rate)
        self._painter: Painter[ResultsT] = self._new_painter(index.info.upright_size)
        self._started.append(name)


class _Segment:
    """One file: frames of one size, with increasing times."""

    def __init__(
        self, path: Path, painter: Painter[Any], size: tuple[int, int], start_seconds: float
    ) -> None:
        self.video = VideoFile(path, Fraction(0), is_endless=True)
        self.painter = painter
        self.size = size
        self.start_seconds = self.last_seconds = start_seconds


class AnnotatedSegments:
    """Annotated videos of interleaved sources: a `Sink`.

    Each frame keeps its time. Files are `annotated.mp4` for one source, `annotated-0.mp4`,
    `annotated-1.mp4`... for several. A change of size, or a decreasing time, starts another file:
    `annotated-0.2.mp4`. Written files play, however the run ends.
    """

    def __init__(
        self,
        folder: Path,
        sources: int,
        painter: Callable[[tuple[int, int]], Painter[Any]] = LabelPainter,
    ) -> None:
        """Open no file before the first frame of a source.

        Args:
            folder: Output folder; existing files are replaced.
            sources: Number of sources.
            painter: Painter class: `LabelPainter` or `BoxPainter`.
        """
        self._folder = folder
        self._sources = sources
        self._painter = painter
        self._open: dict[int, _Segment] = {}
        self._paths: list[Path] = []
        self._counts: dict[int, int] = {}

    def write(self, results: ClassifiedBatch | DetectedBatch) -> None:
        """Draw and append the frames: see `Sink.write`."""
        batch = results.batch
        height, width = batch.frames.shape[1:3]
        for k, seconds in enumerate(batch.pts_seconds.tolist()):
            segment = self._segment(batch.video, (height, width), seconds)
            frame = segment.painter.paint_one(results, k)
            segment.video.write(frame, seconds - segment.start_seconds)
            segment.last_seconds = seconds

    def close(self) -> None:
        """Finish the files: see `Sink.close`; the first failure is raised."""
        failures: list[ConfigError] = []
        for segment in self._open.values():
            try:
                segment.video.close()
            except ConfigError as error:
                failures.append(error)
        self._open.clear()
        if failures:
            raise failures[0]

    @property
    def outputs(self) -> tuple[str, ...]:
        """Files with at least one frame."""
        return tuple(path.name for path in self._paths if path.exists())

    def _segment(self, source: int, size: tuple[int, int], seconds: float) -> _Segment:
        segment = self._open.get(source)
        if segment is not None:
            if segment.size == size and seconds >= segment.last_seconds:
                return segment
            segment.video.close()
        number = self._counts[source] = self._counts.get(source, 0) + 1
        infix = f"-{source}" if self._sources > 1 else ""
        path = self._folder / f"annotated{infix}{f'.{number}' if number > 1 else ''}.mp4"
        self._paths.append(path)
        segment = self._open[source] = _Segment(path, self._painter(size), size, seconds)
        return segment


FOLDER: Final = "annotated"
"""Folder of annotated images, in the output folder."""
_FORMATS: Final = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_QUALITY: Final = 90


class AnnotatedImages:
    """Annotated images with boxes: a `SinkOf[DetectedBatch]`.

    Each file keeps its name and the format of its suffix, and is written completely or not at all.
    """

    def __init__(self, folder: Path) -> None:
        """Write no file before the first image; existing files are replaced.

        Args:
            folder: Output folder, the parent of `FOLDER`.
        """
        self._folder = folder
        self._has_written = False

    def write(self, results: DetectedBatch) -> None:
        """Draw and write the images of a batch: see `SinkOf.write`."""
        batch = results.batch
        if not isinstance(batch, ImageBatch):
            raise ConfigError("this sink annotates images, got frames of a video")
        height, width = batch.frames.shape[1:3]
        drawn = BoxPainter((height, width)).paint(results)
        for image, pixels in zip(batch.pictures, drawn, strict=True):
            path = self._folder / FOLDER / image.name
            partial = partial_of(path)
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                partial.write_bytes(_encode(pixels, path))
                partial.replace(path)
            self._has_written = True

    def close(self) -> None:
        """Do nothing: no file is open. See `SinkOf.close`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Their folder, if it has an image."""
        return (f"{FOLDER}/",) if self._has_written else ()


def _encode(pixels: NDArray[np.uint8], path: Path) -> bytes:
    kind = _FORMATS[path.suffix.lower()]
    options: dict[str, Any] = {} if kind == "PNG" else {"quality": _QUALITY}
    with BytesIO() as file:
        Image.fromarray(pixels).save(file, kind, **options)
        return file.getvalue()
