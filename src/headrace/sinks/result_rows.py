"""Predictions and boxes as rows of files: JSON lines, or Parquet tables, complete or absent."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from headrace.atomic_file import partial_of
from headrace.errors import file_errors
from headrace.extras import check_extra, require
from headrace.models.results import Boxes, Labels
from headrace.runtime.clock import iso_text
from headrace.sinks.batch_results import BatchResults

Rows = Callable[[Any], list[dict[str, Any]]]
"""Results of a batch → rows, each with a value for every column."""


class LineFile:
    """JSON lines, one per row: a `ResultSink`. Times are ISO 8601 texts: see `iso_text`."""

    def __init__(self, path: Path, rows: Rows, *, name: str) -> None:
        """Open the file; the first row replaces an existing one.

        Args:
            path: Path of the file.
            rows: Returns the rows of a batch.
            name: Name in messages and records.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.name = name
        self._path = path
        self._rows = rows
        self._is_empty = True
        with writing(path):
            self._file: TextIO = path.open("a", encoding="utf-8")

    def write(self, results: Any) -> None:
        """Append the lines of a batch: see `ResultSink.write`."""
        rows = self._rows(results)
        with writing(self._path):
            if self._is_empty and rows:
                self._file.close()
                self._file = self._path.open("w", encoding="utf-8")
            self._file.writelines(f"{json_line(row)}\n" for row in rows)
            self._file.flush()  # readers of the open file see complete batches
            self._is_empty = self._is_empty and not rows

    def close(self) -> None:
        """Finish the file, or remove it if it is empty: see `ResultSink.close`."""
        with writing(self._path):
            self._file.close()
            if self._is_empty and self._path.exists() and not self._path.stat().st_size:
                self._path.unlink()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The file, if it has a line."""
        return () if self._is_empty else (self._path.name,)


_ROW_GROUP: Final = 20_000
"""Rows per row group: a few MB of memory."""


class TableFile:
    """Parquet table: a `ResultSink`. The file appears on close, complete. Needs pyarrow.

    It is missing without a batch, and empty if no batch had a row.
    """

    def __init__(self, path: Path, columns: Mapping[str, str], rows: Rows, *, name: str) -> None:
        """Start the file; an existing one is replaced on close.

        Args:
            path: Path of the file.
            columns: Name -> pyarrow type; `[string]` is a list of strings, `timestamp` is UTC in
                microseconds.
            rows: Returns the rows of a batch.
            name: Name in messages and records.

        Raises:
            ConfigError: the file cannot be written.
        """
        import pyarrow.parquet

        self.name = name
        self._path = path
        self._partial = partial_of(path)
        self._rows = rows
        self._pending: list[dict[str, Any]] = []
        self._has_batches = self._is_complete = False
        self._schema: Any = pyarrow.schema([(name, _type(kind)) for name, kind in columns.items()])
        with writing(path):
            self._writer: Any = pyarrow.parquet.ParquetWriter(self._partial, self._schema)

    def write(self, results: Any) -> None:
        """Append the rows of a batch: see `ResultSink.write`; a file that fails is removed."""
        self._has_batches = True
        self._pending += self._rows(results)
        if len(self._pending) >= _ROW_GROUP:
            self._write_group()

    def close(self) -> None:
        """Finish the table, or remove one without batches: see `ResultSink.close`."""
        if self._writer is None:
            return
        self._write_group()
        writer, self._writer = self._writer, None
        with writing(self._path, partial(self._remove, writer)):
            writer.close()
            if self._has_batches:
                self._partial.replace(self._path)
                self._is_complete = True
            else:
                self._partial.unlink(missing_ok=True)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The table, once complete."""
        return (self._path.name,) if self._is_complete else ()

    def _write_group(self) -> None:
        import pyarrow

        rows, self._pending = self._pending, []
        if rows and self._writer is not None:
            with writing(self._path, partial(self._remove, self._writer)):
                self._writer.write_table(pyarrow.Table.from_pylist(rows, schema=self._schema))

    def _remove(self, writer: Any) -> None:
        self._writer = None
        with suppress(OSError):
            writer.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)


def _type(name: str) -> Any:
    import pyarrow

    if name.startswith("["):
        return pyarrow.list_(_type(name.strip("[]")))
    if name == "timestamp":
        return pyarrow.timestamp("us", tz="UTC")
    return pyarrow.type_for_alias(name)


def json_line(row: dict[str, Any]) -> str:
    """Return a row as JSON, with ISO 8601 times."""
    return json.dumps(row, ensure_ascii=False, default=iso_text)


@contextmanager
def writing(path: Path, undo: Callable[[], object] | None = None) -> Iterator[None]:
    """Convert file errors of the block into ConfigError, after a call of `undo`."""
    with file_errors(f"cannot write {path}", "give another folder with --out"):
        try:
            yield
        except OSError:
            if undo is not None:
                undo()
            raise


RowFormat = Literal["jsonl", "parquet"]
TABLES: Final = ("predictions.parquet", "boxes.parquet")
"""Names of the tables in the output folder."""
_LOCATION: Final = {
    "source": "string",
    "index": "int64",
    "pts": "int64",
    "pts_seconds": "float64",
}
_ARRIVAL: Final = {
    "segment": "int64",
    "arrival_time": "timestamp",
    "capture_time": "timestamp",
}
_LABEL: Final = {"label": "string", "confidence": "float64"}
_TOP_K: Final = {"labels": "[string]", "confidences": "[float64]"}
_CORNERS: Final = ("x1", "y1", "x2", "y2")
_BOX: Final = {
    "label_id": "int64",
    "label": "string",
    "score": "float32",
    **dict.fromkeys(_CORNERS, "float32"),
}


def check_table(*, of_boxes: bool) -> None:
    """Raise BackendError if the extra for tables is not installed."""
    what, instead = "a table of predictions", "leave out --predictions for JSON lines"
    if of_boxes:
        what, instead = "a table of boxes", "give --no-parquet for coco.json alone"
    check_extra("parquet", what, instead)
    with require("parquet", what, instead):
        import_module("pyarrow.parquet")


def open_predictions(
    kind: RowFormat, folder: Path, sources: Sequence[str], *, top_k: int, is_live: bool = False
) -> LineFile | TableFile:
    """Return the sink of the predictions, a row per frame.

    {"source": "a.mp4", "index": 7, "pts": 21000, "pts_seconds": 0.233333, "label": "cat",
    "confidence": 0.91}

    See `BatchResults.locations` for the first values. With `top_k` above 1, `labels` and
    `confidences` list the classes, the likeliest first.

    Args:
        kind: Format of the file.
        folder: Output folder.
        sources: Names of the sources.
        top_k: Number of classes per frame.
        is_live: Whether each frame has an `Arrival`.

    Raises:
        BackendError: pyarrow is missing, for a table.
        ConfigError: the file cannot be written.
    """

    def rows(results: BatchResults[Labels]) -> list[dict[str, Any]]:
        return list(_label_rows(results, sources, top_k))

    if kind == "jsonl":
        return LineFile(folder / "predictions.jsonl", rows, name="predictions")
    check_table(of_boxes=False)
    columns = _LOCATION | (_ARRIVAL if is_live else {}) | _LABEL | (_TOP_K if top_k > 1 else {})
    return TableFile(folder / TABLES[0], columns, rows, name="predictions")


def _label_rows(
    results: BatchResults[Labels], sources: Sequence[str], top_k: int
) -> Iterator[dict[str, Any]]:
    labels = results.output
    locations = results.locations(sources)
    for row, names, scores in zip(locations, labels.names, labels.confidence, strict=True):
        confidences = [round(score, 6) for score in scores]
        row |= {"label": names[0], "confidence": confidences[0]}
        yield row | ({"labels": [*names], "confidences": confidences} if top_k > 1 else {})


def open_boxes(
    kind: RowFormat, folder: Path, sources: Sequence[str], *, is_live: bool = False
) -> LineFile | TableFile:
    """Return the sink of the boxes: JSON lines of frames, or a table with a row per box.

    {"source": "a.mp4", "index": 7, "pts": 21000, "pts_seconds": 0.233333, "boxes": [{"label_id":
    18, "label": "dog", "score": 0.93, "xyxy": [left, top, right, bottom]}]}

    In the table, x1, y1, x2, y2 are left, top, right, bottom. Arguments and errors: see
    `open_predictions`.
    """
    if kind == "jsonl":

        def lines(results: BatchResults[Boxes]) -> list[dict[str, Any]]:
            return [location | {"boxes": boxes} for location, boxes in box_rows(results, sources)]

        return LineFile(folder / "boxes.jsonl", lines, name="boxes")

    def rows(results: BatchResults[Boxes]) -> list[dict[str, Any]]:
        return [  # pyarrow ignores `xyxy`, which has no column
            location | box | dict(zip(_CORNERS, box["xyxy"], strict=True))
            for location, boxes in box_rows(results, sources)
            for box in boxes
        ]

    check_table(of_boxes=True)
    columns = _LOCATION | (_ARRIVAL if is_live else {}) | _BOX
    return TableFile(folder / TABLES[1], columns, rows, name="boxes as a table")


def box_rows(
    results: BatchResults[Boxes], sources: Sequence[str]
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the location and the boxes of each frame, the most confident first.

    A box has `label_id`, `label`, `score` in [0, 1], and `xyxy`: left, top, right, bottom, in
    pixels of the upright frame.
    """
    boxes = results.output
    for k, location in enumerate(results.locations(sources)):
        yield (
            location,
            [
                {"label_id": number, "label": label, "score": score, "xyxy": xyxy}
                for number, label, score, xyxy in zip(
                    boxes.classes[k].tolist(),
                    boxes.labels[k],
                    boxes.scores[k].tolist(),
                    boxes.xyxy[k].tolist(),
                    strict=True,
                )
            ],
        )
