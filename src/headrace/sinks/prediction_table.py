"""Predictions as a Parquet table, a row for each frame."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from headrace.errors import BackendError
from headrace.sinks.predictions import (
    PredictionFormat,
    PredictionLines,
    prediction_rows,
    unwritable,
)
from headrace.sinks.seen import Seen, Sink

NAME = "predictions.parquet"
"""The file in the folder of a run."""
_GROUP: Final = 20_000
"""Rows that are written together: what is read at a time later, and some MB of memory now."""


class PredictionTable:
    """Writes a row for each frame, with the columns of `prediction_rows`: a `Sink`.

    The file appears when it is closed, whole: until then it cannot be read. Needs pyarrow.
    """

    def __init__(self, folder: Path, sources: Sequence[str], *, top_k: int = 1) -> None:
        """Make the file in `folder`; one that lies there is replaced when this one is closed.

        Args:
            folder: Where it lies.
            sources: What each is called.
            top_k: How many classes were asked for.

        Raises:
            BackendError: pyarrow is missing.
            ConfigError: it cannot be written.
        """
        check_parquet()
        import pyarrow.parquet

        self._path = folder / NAME
        self._partial = folder / f".{NAME}.partial"
        self._sources = tuple(sources)
        self._top_k = top_k
        self._schema = _schema(top_k)
        self._rows: list[dict[str, Any]] = []
        self._is_empty = True
        try:
            self._writer: Any = pyarrow.parquet.ParquetWriter(self._partial, self._schema)
        except OSError as error:
            raise unwritable(self._path, error) from error

    def write(self, seen: Seen) -> None:
        """Append a row for each frame: see `Sink.write`."""
        self._rows += prediction_rows(seen, self._sources, self._top_k)
        if len(self._rows) >= _GROUP:
            self._write_group()

    def close(self) -> None:
        """Finish the table; one without a row is removed: see `Sink.close`."""
        if self._writer is None:
            return
        self._write_group()
        writer, self._writer = self._writer, None
        try:
            writer.close()
            if self._is_empty:
                self._partial.unlink(missing_ok=True)
            else:
                self._partial.replace(self._path)
        except OSError as error:
            self._give_up(writer)
            raise unwritable(self._path, error) from error

    @property
    def outputs(self) -> tuple[str, ...]:
        """The table, if it holds a row."""
        return () if self._is_empty else (NAME,)

    def _write_group(self) -> None:
        import pyarrow

        if not self._rows:
            return
        rows, self._rows = self._rows, []
        try:
            self._writer.write_table(pyarrow.Table.from_pylist(rows, schema=self._schema))
            self._is_empty = False
        except OSError as error:
            writer, self._writer = self._writer, None
            self._give_up(writer)
            raise unwritable(self._path, error) from error

    def _give_up(self, writer: Any) -> None:
        self._is_empty = True
        with suppress(OSError):
            writer.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)


def check_parquet() -> None:
    """Raise BackendError where tables cannot be written, with what adds it."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise BackendError(
            "predictions as parquet were asked for, and pyarrow is not installed; "
            "pip install 'headrace[parquet]', or leave out --predictions for JSON lines"
        ) from error


def open_predictions(
    kind: PredictionFormat, folder: Path, sources: Sequence[str], *, top_k: int
) -> Sink:
    """Return what writes predictions in the format that was asked for.

    Raises:
        BackendError, ConfigError: as `PredictionTable` and `PredictionLines`.
    """
    sink = PredictionTable if kind == "parquet" else PredictionLines
    return sink(folder, sources, top_k=top_k)


def _schema(top_k: int) -> Any:
    import pyarrow

    columns = [
        ("source", pyarrow.string()),
        ("index", pyarrow.int64()),
        ("pts", pyarrow.int64()),
        ("pts_seconds", pyarrow.float64()),
        ("label", pyarrow.string()),
        ("confidence", pyarrow.float64()),
    ]
    if top_k > 1:
        columns += [
            ("labels", pyarrow.list_(pyarrow.string())),
            ("confidences", pyarrow.list_(pyarrow.float64())),
        ]
    return pyarrow.schema(columns)
