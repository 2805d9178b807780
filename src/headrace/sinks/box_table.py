"""Boxes as a Parquet table, a row per box, or as JSON lines, one per frame."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from headrace.extraction.image_reader import ImageBatch
from headrace.sinks.batch_results import Arrival, DetectedBatch
from headrace.sinks.parquet_file import ParquetFile, check_parquet
from headrace.sinks.prediction_table import OF_LIVE
from headrace.sinks.predictions import PredictionLines
from headrace.video.frames import FrameBatch


@dataclass(frozen=True, kw_only=True)
class BoxRow:
    """One box."""

    label_id: int
    label: str
    score: float
    """In [0, 1]."""
    xyxy: tuple[float, float, float, float]
    """Left, top, right, bottom, in pixels of the upright frame."""


@dataclass(frozen=True, kw_only=True)
class DetectionRow:
    """One frame of a video, or one image."""

    source: str
    """Path of the video or image; undecodable bytes are escaped, as `\\udcff`."""
    index: int | None
    """Index of the frame in its video; None: an image."""
    pts: int | None
    """Ticks of the video's time base."""
    pts_seconds: float | None
    size: tuple[int, int]
    """(height, width) of the upright frame, pixels."""
    boxes: tuple[BoxRow, ...]
    """Most confident first."""
    arrival: Arrival | None
    """None at full speed."""

    @property
    def location(self) -> dict[str, Any]:
        """Source, index, pts and pts_seconds; in a live run also the fields of `Arrival`."""
        return {
            "source": self.source,
            "index": self.index,
            "pts": self.pts,
            "pts_seconds": self.pts_seconds,
            **({} if self.arrival is None else asdict(self.arrival)),
        }


def frame_rows(results: DetectedBatch, sources: Sequence[str]) -> Iterator[DetectionRow]:
    """Yield a row for each frame of a batch; `sources` are the paths of the videos."""
    batch = results.batch
    height, width = batch.frames.shape[1:3]
    for k in range(len(batch)):
        is_picture = isinstance(batch, ImageBatch)
        yield DetectionRow(
            source=_source(batch, k, sources),
            index=None if is_picture else int(batch.index[k]),
            pts=None if is_picture else int(batch.pts[k]),
            pts_seconds=None if is_picture else round(float(batch.pts_seconds[k]), 6),
            size=(height, width),
            boxes=tuple(_box_rows(results, k)),
            arrival=results.arrival,
        )


def _source(batch: FrameBatch, k: int, sources: Sequence[str]) -> str:
    name = str(batch.pictures[k].path) if isinstance(batch, ImageBatch) else sources[batch.video]
    # Undecodable bytes of a name are escaped, as in a session.
    return name.encode(errors="backslashreplace").decode()


def _box_rows(results: DetectedBatch, k: int) -> Iterator[BoxRow]:
    boxes = results.boxes
    for number, label, score, (left, top, right, bottom) in zip(
        boxes.classes[k].tolist(),
        boxes.labels[k],
        boxes.scores[k].tolist(),
        boxes.xyxy[k].tolist(),
        strict=True,
    ):
        yield BoxRow(label_id=number, label=label, score=score, xyxy=(left, top, right, bottom))


NAME: Final = "boxes.parquet"
"""Name of the table in the output folder."""
LINES: Final = "boxes.jsonl"
_LOCATION: Final = {
    "source": "string",
    "index": "int64",
    "pts": "int64",
    "pts_seconds": "float64",
}
_BOX: Final = {
    "label_id": "int64",
    "label": "string",
    "score": "float32",
    **dict.fromkeys(("x1", "y1", "x2", "y2"), "float32"),
}


class BoxTable:
    """Table with a row per box: a `SinkOf[DetectedBatch]`.

    `index`, `pts` (ticks) and `pts_seconds` are null for images; x1, y1, x2, y2 are left, top,
    right, bottom in pixels of the upright frame. The file appears on close, complete; it is empty
    without boxes, and missing without frames.
    """

    def __init__(self, folder: Path, sources: Sequence[str], *, is_live: bool = False) -> None:
        """Start the file in `folder`; `sources` are the paths of the videos.

        With `is_live` the table has the columns of `Arrival`.

        Raises:
            BackendError: pyarrow is missing.
            ConfigError: the file cannot be written.
        """
        check_table()
        self._file = ParquetFile(folder / NAME, _LOCATION | (OF_LIVE if is_live else {}) | _BOX)
        self._sources = tuple(sources)
        self._has_frames = self._is_there = False

    def write(self, results: DetectedBatch) -> None:
        """Append the boxes of a batch: see `SinkOf.write`."""
        self._has_frames = True
        self._file.write(
            [
                {
                    **frame.location,
                    "label_id": box.label_id,
                    "label": box.label,
                    "score": box.score,
                    **dict(zip(("x1", "y1", "x2", "y2"), box.xyxy, strict=True)),
                }
                for frame in frame_rows(results, self._sources)
                for box in frame.boxes
            ]
        )

    def close(self) -> None:
        """Finish the table: see `SinkOf.close`."""
        self._is_there = self._file.close(is_kept=self._has_frames) or self._is_there

    @property
    def outputs(self) -> tuple[str, ...]:
        """The table, once complete."""
        return (NAME,) if self._is_there else ()


class BoxLines(PredictionLines):
    """JSON lines in `boxes.jsonl`, one per frame: a `SinkOf[DetectedBatch]`.

    {"source": "a.mp4", "index": 7, "pts": 21000, "pts_seconds": 0.233333, "boxes": [{"label_id":
    18, "label": "dog", "score": 0.93, "xyxy": [left, top, right, bottom]}]}
    """

    _name = LINES

    def _rows(self, results: DetectedBatch) -> list[dict[str, Any]]:
        return [
            frame.location | {"boxes": [asdict(box) for box in frame.boxes]}
            for frame in frame_rows(results, self._sources)
        ]


def check_table() -> None:
    """Raise BackendError if the extra for tables is not installed."""
    check_parquet("a table of boxes", "give --no-parquet for coco.json alone")
