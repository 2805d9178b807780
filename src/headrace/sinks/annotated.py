"""Annotated videos and images: labels or boxes drawn on the frames."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.atomic_file import partial_of
from headrace.errors import ConfigError
from headrace.extraction.image_reader import ImageBatch
from headrace.models.results import Boxes
from headrace.sinks.batch_results import BatchResults
from headrace.sinks.painting import BoxPainter, LabelPainter, Painter
from headrace.sinks.result_rows import writing
from headrace.sinks.video_file import VideoFile
from headrace.video.stream_index import StreamIndex


def annotated_names(videos: int) -> tuple[str, ...]:
    """Return the file names: `annotated.mp4`, or `annotated-0.mp4`... for several videos."""
    if videos == 1:
        return ("annotated.mp4",)
    return tuple(f"annotated-{number}.mp4" for number in range(videos))


@dataclass(eq=False)
class _Segment:
    """One file: frames of one size, with increasing times."""

    video: VideoFile
    painter: Painter
    size: tuple[int, int]
    start_seconds: float
    last_seconds: float


class AnnotatedVideos:
    """Annotated videos: a `ResultSink`. Each frame keeps its time.

    Files are `annotated.mp4` for one source, `annotated-0.mp4`, `annotated-1.mp4`... for several.
    Written files play, however the run ends.

    Interleaved sources: a change of size, or a decreasing time, starts another file,
    `annotated-0.2.mp4`. Consecutive videos: times count from the first frame of the video, and a
    file is finished when the next video starts.
    """

    name = "annotated video"

    def __init__(
        self,
        folder: Path,
        sources: int,
        painter: Callable[[tuple[int, int]], Painter] = LabelPainter,
        *,
        indexes: Sequence[StreamIndex] = (),
    ) -> None:
        """Open the file of the first video; for interleaved sources, open none before a frame.

        Args:
            folder: Output folder; existing files are replaced.
            sources: Number of sources.
            painter: Painter class: `LabelPainter` or `BoxPainter`.
            indexes: Indexes of consecutive videos, in order; empty: interleaved sources.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._folder = folder
        self._names = annotated_names(sources)
        self._painter = painter
        self._indexes = indexes
        self._open: dict[int, _Segment] = {}
        self._paths: list[Path] = []
        self._counts: Counter[int] = Counter()
        if indexes:
            self._start(0, indexes[0].info.upright_size, 0.0)

    def write(self, results: BatchResults[Any]) -> None:
        """Draw and append the frames of a batch: see `ResultSink.write`."""
        for k, seconds in enumerate(results.batch.pts_seconds.tolist()):
            segment = self._segment(results.batch.video, results.size, seconds)
            segment.video.write(segment.painter.paint(results, k), seconds - segment.start_seconds)
            segment.last_seconds = seconds

    def close(self) -> None:
        """Finish the files: see `ResultSink.close`; the first failure is raised."""
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
        if segment is None and self._indexes:
            self.close()  # the previous video is complete
        elif segment is not None:
            if self._indexes or (segment.size == size and seconds >= segment.last_seconds):
                return segment
            segment.video.close()
        return self._start(source, size, seconds)

    def _start(self, source: int, size: tuple[int, int], seconds: float) -> _Segment:
        self._counts[source] += 1
        path = self._folder / self._names[source]
        if self._counts[source] > 1:
            path = path.with_suffix(f".{self._counts[source]}.mp4")
        rate = Fraction(0)
        if self._indexes:
            rate, seconds = self._indexes[source].frame_rate, self._indexes[source].seconds(0)
        video = VideoFile(path, rate, is_endless=not self._indexes)
        self._paths.append(path)
        segment = _Segment(video, self._painter(size), size, seconds, seconds)
        self._open[source] = segment
        return segment


FOLDER: Final = "annotated"
"""Folder of annotated images, in the output folder."""
_FORMATS: Final = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_QUALITY: Final = 90


class AnnotatedImages:
    """Annotated images with boxes: a `ResultSink` of boxes.

    Each file keeps its name and the format of its suffix, and is written completely or not at all.
    """

    name = "annotated images"

    def __init__(self, folder: Path) -> None:
        """Create no file before the first image; existing files are replaced.

        Args:
            folder: Output folder, the parent of `FOLDER`.
        """
        self._folder = folder
        self._has_written = False

    def write(self, results: BatchResults[Boxes]) -> None:
        """Draw and write the images of a batch: see `ResultSink.write`."""
        batch = results.batch
        if not isinstance(batch, ImageBatch):
            raise ConfigError("annotated images need an image source, got frames of a video")
        painter = BoxPainter(results.size)
        for k, image in enumerate(batch.pictures):
            pixels = painter.paint(results, k)
            path = self._folder / FOLDER / image.name
            partial = partial_of(path)
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                partial.write_bytes(_encode(pixels, path))
                partial.replace(path)
            self._has_written = True

    def close(self) -> None:
        """Do nothing: no file is open. See `ResultSink.close`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Folder of the images, if it has one."""
        return (f"{FOLDER}/",) if self._has_written else ()


def _encode(pixels: NDArray[np.uint8], path: Path) -> bytes:
    kind = _FORMATS[path.suffix.lower()]
    options: dict[str, Any] = {} if kind == "PNG" else {"quality": _QUALITY}
    with BytesIO() as file:
        Image.fromarray(pixels).save(file, kind, **options)
        return file.getvalue()
