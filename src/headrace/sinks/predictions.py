"""Predictions, a row for each frame: as JSON lines here, as a table in prediction_table.py."""

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
"""The file in the folder of a run."""


def prediction_rows(
    seen: ClassifiedBatch, sources: Sequence[str], top_k: int
) -> list[dict[str, Any]]:
    """Return what was predicted for each frame of a batch.

    {"source": "a.mp4", "index": 7, "pts": 21000, "pts_seconds": 0.233333, "label": "cat",
    "confidence": 0.91}

    `pts` are ticks of the video's time base, exact, to join results with. Rows of a live run also
    hold `segment`, `arrival_time` and `capture_time`, as `Arrival` does. Where more than one class
    was asked for, `labels` and `confidences` hold them all, the likeliest first.
    """
    batch, found = seen.batch, seen.labels
    rows = []
    for k in range(len(batch)):
        names, confidence = found.names[k], [round(value, 6) for value in found.confidence[k]]
        row = {
            "source": sources[batch.video],
            "index": int(batch.index[k]),
            "pts": int(batch.pts[k]),
            "pts_seconds": round(float(batch.pts_seconds[k]), 6),
            **({} if seen.arrival is None else asdict(seen.arrival)),
            "label": names[0],
            "confidence": confidence[0],
        }
        several = {"labels": list(names), "confidences": confidence} if top_k > 1 else {}
        rows.append(row | several)
    return rows


class PredictionLines:
    """Appends a line of JSON for each frame, a row of `prediction_rows`: a `Sink`.

    Wall times are texts, as `iso_text` writes them.
    """

    _name = NAME

    def __init__(self, folder: Path, sources: Sequence[str], *, top_k: int = 1) -> None:
        """Make the file in `folder`; one that lies there is replaced.

        Args:
            folder: Where it lies.
            sources: What each is called.
            top_k: How many classes were asked for.

        Raises:
            ConfigError: it cannot be written.
        """
        self._path = folder / self._name
        self._is_empty = True
        self._sources = tuple(sources)
        self._top_k = top_k
        with writing(self._path):
            self._file: TextIO = self._path.open("w", encoding="utf-8")

    def write(self, seen: Any) -> None:
        """Append a line for each frame: see `Sink.write`."""
        rows = self._rows(seen)
        with writing(self._path):
            self._file.writelines(f"{json_line(row)}\n" for row in rows)
            self._file.flush()  # who follows the file sees whole batches
            self._is_empty = self._is_empty and not rows

    def close(self) -> None:
        """Finish the file; one without a line is removed: see `Sink.close`."""
        with writing(self._path):
            self._file.close()
            if self._is_empty:
                self._path.unlink(missing_ok=True)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The file, if it holds a line."""
        return () if self._is_empty else (self._name,)

    def _rows(self, seen: Any) -> list[dict[str, Any]]:
        return prediction_rows(seen, self._sources, self._top_k)


def json_line(row: dict[str, Any]) -> str:
    """Return a row as JSON, its times as `iso_text` writes them."""
    return json.dumps(row, ensure_ascii=False, default=iso_text)


def writing(path: Path) -> AbstractContextManager[None]:
    """Around work on a file of results: what the system says against it becomes a ConfigError."""
    return file_errors(f"cannot write {path}", "give another folder with --out")
