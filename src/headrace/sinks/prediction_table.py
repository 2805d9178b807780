"""Parquet table of predictions, a row per frame."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headrace.sinks.batch_results import ClassifiedBatch, Sink
from headrace.sinks.parquet_file import ParquetFile, check_parquet
from headrace.sinks.predictions import PredictionFormat, PredictionLines, prediction_rows

NAME = "predictions.parquet"
"""File name in the output folder."""
_COLUMNS: Final = {
    "source": "string",
    "index": "int64",
    "pts": "int64",
    "pts_seconds": "float64",
    "label": "string",
    "confidence": "float64",
}
OF_LIVE: Final = {
    "segment": "int64",
    "arrival_time": "timestamp",
    "capture_time": "timestamp",
}
_SEVERAL: Final = {"labels": "[string]", "confidences": "[float64]"}


class PredictionTable:
    """Table of `prediction_rows`: a `Sink`. The file appears on close, complete. Needs pyarrow."""

    def __init__(
        self, folder: Path, sources: Sequence[str], *, top_k: int = 1, is_live: bool = False
    ) -> None:
        """Start the file in `folder`; an existing one is replaced on close.

        Args:
            folder: Output folder.
            sources: Names of the sources.
            top_k: Number of classes per frame.
            is_live: Whether each frame has an `Arrival`.

        Raises:
            BackendError: pyarrow is missing.
            ConfigError: the file cannot be written.
        """
        check_table()
        columns = _COLUMNS | (OF_LIVE if is_live else {}) | (_SEVERAL if top_k > 1 else {})
        self._file = ParquetFile(folder / NAME, columns)
        self._sources = tuple(sources)
        self._top_k = top_k
        self._has_rows = self._is_there = False

    def write(self, results: ClassifiedBatch) -> None:
        """Append a row per frame: see `Sink.write`."""
        rows = prediction_rows(results, self._sources, self._top_k)
        self._has_rows = self._has_rows or bool(rows)
        self._file.write(rows)

    def close(self) -> None:
        """Finish the table, or remove an empty one: see `Sink.close`."""
        self._is_there = self._file.close(is_kept=self._has_rows) or self._is_there

    @property
    def outputs(self) -> tuple[str, ...]:
        """The table, if it has a row."""
        return (NAME,) if self._is_there else ()


def check_table() -> None:
    """Raise BackendError if the extra for tables is not installed."""
    check_parquet("a table of predictions", "leave out --predictions for JSON lines")


def open_predictions(
    kind: PredictionFormat,
    folder: Path,
    sources: Sequence[str],
    *,
    top_k: int,
    is_live: bool = False,
) -> Sink:
    """Return the sink of predictions in a format.

    Raises:
        BackendError, ConfigError: see `PredictionTable` and `PredictionLines`.
    """
    if kind == "parquet":
        return PredictionTable(folder, sources, top_k=top_k, is_live=is_live)
    return PredictionLines(folder, sources, top_k=top_k)
