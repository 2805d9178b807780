"""Predictions as JSON lines, a row per frame; prediction_table.py writes a table."""

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TextIO

from headrace.errors import file_errors
from headrace.runtime.clock import iso_text
from headrace.sinks.batch_results import ClassifiedBatch

PredictionFormat = Literal["jsonl", "parquet"]
NAME = "predictions.jsonl"
"""File name in the output folder."""


def prediction_rows(
    results: ClassifiedBatch, sources: Sequence[str], top_k: int
) -> list[dict[str, Any]]:
    """Return the prediction of each frame of a batch, as a row.

    {"source": "a.mp4", "index": 7, "pts": 21000, "pts_seconds": 0.233333, "label": "cat",
    "confidence": 0.91}

    `pts` are exact ticks of the video's time base, to join results with. Rows of a live run also
    have `segment`, `arrival_time` and `capture_time`: see `Arrival`. With `top_k` above 1, `labels`
    and `confidences` list the classes, the likeliest first.
    """
    batch, labels = results.batch, results.labels
    rows = []
    for k in range(len(batch)):
        names, confidence = labels.names[k], [round(value, 6) for value in labels.confidence[k]]
        row = {
            "source": sources[batch.video],
            "index": int(batch.index[k]),
            "pts": int(batch.pts[k]),
            "pts_seconds": round(float(batch.pts_seconds[k]), 6),
            **({} if results.arrival is None else asdict(results.arrival)),
            "label": names[0],
            "confidence": confidence[0],
        }
        all_classes = {"labels": list(names), "confidences": confidence} if top_k > 1 else {}
        rows.append(row | all_classes)
    return rows


class PredictionLines:
    """JSON lines of `prediction_rows`: a `Sink`. Times are ISO 8601 texts: see `iso_text`."""

    _name = NAME

    def __init__(self, folder: Path, sources: Sequence[str], *, top_k: int = 1) -> None:
        """Start the file in `folder`; an existing one is replaced.

        Args:
            folder: Output folder.
            sources: Names of the sources.
            top_k: Number of classes per frame.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._path = folder / self._name
        self._is_empty = True
        self._sources = tuple(sources)
        self._top_k = top_k
        with writing(self._path):
            self._file: TextIO = self._path.open("w", encoding="utf-8")

    def write(self, results: Any) -> None:
        """Append a line per frame: see `Sink.write`."""
        rows = self._rows(results)
        with writing(self._path):
            self._file.writelines(f"{json_line(row)}\n" for row in rows)
            self._file.flush()  # readers of the open file see complete batches
            self._is_empty = self._is_empty and not rows

    def close(self) -> None:
        """Finish the file, or remove an empty one: see `Sink.close`."""
        with writing(self._path):
            self._file.close()
            if self._is_empty:
                self._path.unlink(missing_ok=True)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The file, if it has a line."""
        return () if self._is_empty else (self._name,)

    def _rows(self, results: Any) -> list[dict[str, Any]]:
        return prediction_rows(results, self._sources, self._top_k)


def json_line(row: dict[str, Any]) -> str:
    """Return a row as JSON, with ISO 8601 times."""
    return json.dumps(row, ensure_ascii=False, default=iso_text)


def writing(path: Path) -> AbstractContextManager[None]:
    """Convert file errors of the block into ConfigError."""
    return file_errors(f"cannot write {path}", "give another folder with --out")
