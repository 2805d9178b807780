"""Boxes as a Parquet table, a row for each, or as JSON lines, one for each frame."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from headrace.sinks.box_rows import frame_rows
from headrace.sinks.parquet_file import ParquetFile, check_parquet
from headrace.sinks.prediction_table import OF_LIVE
from headrace.sinks.predictions import PredictionLines
from headrace.sinks.seen import Found

NAME: Final = "boxes.parquet"
"""The table in the folder of a run."""
LINES: Final = "boxes.jsonl"
_PLACE: Final = {
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
    """Writes a row for each box: a `SinkOf[Found]`.

    `index`, `pts` (ticks) and `pts_seconds` are null for pictures; x1, y1, x2, y2 are left, top,
    right, bottom in pixels of the upright frame. The file appears when it is closed, whole. One
    without a row says that nothing was found; there is none where no frame was looked at.
    """

    def __init__(self, folder: Path, sources: Sequence[str], *, is_live: bool = False) -> None:
        """Begin the file in `folder`; `sources` are the videos by their places.

        With `is_live` each frame comes with its `Arrival`, whose columns the table has then.

        Raises:
            BackendError: pyarrow is missing.
            ConfigError: it cannot be written.
        """
        check_table()
        self._file = ParquetFile(folder / NAME, _PLACE | (OF_LIVE if is_live else {}) | _BOX)
        self._sources = tuple(sources)
        self._was_fed = self._is_there = False

    def write(self, seen: Found) -> None:
        """Append the boxes of a batch: see `SinkOf.write`."""
        self._was_fed = True
        self._file.write(
            [
                {
                    **frame.place,
                    "label_id": box.label_id,
                    "label": box.label,
                    "score": box.score,
                    **dict(zip(("x1", "y1", "x2", "y2"), box.xyxy, strict=True)),
                }
                for frame in frame_rows(seen, self._sources)
                for box in frame.boxes
            ]
        )

    def close(self) -> None:
        """Finish the table: see `SinkOf.close`."""
        self._is_there = self._file.close(is_kept=self._was_fed) or self._is_there

    @property
    def outputs(self) -> tuple[str, ...]:
        """The table, once it is whole."""
        return (NAME,) if self._is_there else ()


class BoxLines(PredictionLines):
    """Appends a line of JSON for each frame to `boxes.jsonl`: a `SinkOf[Found]`.

    {"source": "a.mp4", "index": 7, "pts": 21000, "pts_seconds": 0.233333, "boxes": [{"label_id":
    18, "label": "dog", "score": 0.93, "xyxy": [left, top, right, bottom]}]}
    """

    _name = LINES

    def _rows(self, seen: Found) -> list[dict[str, Any]]:
        return [
            frame.place | {"boxes": [asdict(box) for box in frame.boxes]}
            for frame in frame_rows(seen, self._sources)
        ]


def check_table() -> None:
    """Raise BackendError where the table cannot be written, with what adds it."""
    check_parquet("a table of boxes", "give --no-parquet for coco.json alone")
