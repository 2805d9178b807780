"""Parquet table of features: its schema, rows as columns, and the reader."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import accumulate, compress, starmap
from math import prod
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.extraction.extraction_options import encodable
from headrace.extraction.features.feature_result import (
    TIMED,
    ChunkResult,
    ResultInfo,
    Samples,
    Times,
    VideoName,
)
from headrace.extraction.features.model_spec import FeatureType
from headrace.extraction.journal import Lost, Outcome
from headrace.records import from_json, recorded, to_json
from headrace.units import one_of

PATTERN: Final = "features-*.parquet"
"""Glob pattern of the tables of a folder."""
VERSION: Final = 1
"""Version of the table layout; other versions are not read."""


@recorded
@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """Facts shared by all rows of a table: model, layer, shape, sampling."""

    model: str
    """Name of the model, or `package.module:function` of a custom model."""
    layer: str | None
    """Layer of the features; None: the output of the model."""
    weights: str
    """Digest of the weights, or their name."""
    shape: tuple[int, ...]
    """Shape of one feature."""
    dtype: FeatureType
    clip_len: int | None
    """Frames of a clip; None: samples are frames."""
    stride: int | None
    """Frames from one frame of a clip to the next."""
    sampling: str
    """Selected frames, or first frames of clips, in words."""
    request: str
    """Digest of the request, equal for all tables of one folder."""

    def __post_init__(self) -> None:
        one_of(FeatureType, dtype=self.dtype)
        if min(self.shape, default=1) < 1:
            raise ConfigError(f"sizes in shape must be >= 1, got {list(self.shape)}")

    @property
    def width(self) -> int:
        """Number of values in one feature."""
        return prod(self.shape)

    def text(self) -> str:
        """Return the facts as JSON."""
        return to_json(self, version=VERSION)

    @classmethod
    def parse(cls, text: str, file: object) -> "TableFacts":
        """Return the facts that `text` was written from.

        Raises:
            ConfigError: `text` holds no facts; the message names `file`.
        """
        return from_json(cls, text, file=file, version=VERSION)


METADATA: Final = b"headrace"
"""Key of the facts in the metadata of the schema."""
FEATURES: Final = "features.list.element.list.element"
"""Parquet's name of the column of features."""
TEXTS: Final = ("video", "path", "content", "status", "error", "worker")
"""Text columns with few distinct values."""
_SAMPLES: Final = tuple(field.name for field in fields(Samples))


def schema_of(facts: TableFacts) -> Any:
    """Return the schema of a table, with its facts."""
    import pyarrow

    fields = [
        pyarrow.field(name, kind, nullable=name in ("content", "error"))
        for name, (kind, _) in _columns(facts).items()
    ]
    return pyarrow.schema(fields, metadata={METADATA: facts.text().encode()})


def columns_of(rows: Sequence[ChunkResult], facts: TableFacts) -> Any:
    """Return rows as a table of pyarrow. Copies each feature once.

    Raises:
        ConfigError: features of a row do not match the facts.
    """
    import pyarrow

    for row in rows:
        features = row.samples.features
        shape = features.shape[1:]
        if len(features) and (shape != facts.shape or features.dtype != facts.dtype):
            raise ConfigError(
                f"features of {row.video.path} are {features.dtype} {list(shape)}, but the table "
                f"has {facts.dtype} {list(facts.shape)}; choose a layer or a frame size with one "
                "shape for all videos"
            )
    columns: dict[str, Any] = {}
    for name, (kind, value_of) in _columns(facts).items():
        values = [value_of(row) for row in rows]
        columns[name] = _lists(values, kind, facts) if name in _SAMPLES else values
    return pyarrow.table(columns, schema=schema_of(facts))


def _columns(facts: TableFacts) -> dict[str, tuple[Any, Callable[[ChunkResult], Any]]]:
    """Return column name → type, and function from a row to its value, in order."""
    import pyarrow

    text, int32, int64 = pyarrow.string(), pyarrow.int32(), pyarrow.int64()
    dtype = pyarrow.float32() if facts.dtype == "float32" else pyarrow.float16()

    def list_of(kind: Any, size: int = -1) -> Any:
        """Return the type of a list with Parquet's name for elements, which are never null."""
        return pyarrow.list_(pyarrow.field("element", kind, nullable=False), size)

    int64s, bools = list_of(int64), list_of(pyarrow.bool_())
    features = list_of(list_of(dtype, facts.width))
    return {
        "chunk_id": (text, lambda row: row.chunk_id),
        "video": (text, lambda row: encodable(row.video.name)),
        "path": (text, lambda row: encodable(row.video.path)),
        "content": (text, lambda row: row.video.content),
        "status": (text, lambda row: row.status),
        "error": (text, lambda row: row.error and encodable(row.error)),
        "width": (int32, lambda row: row.size[1]),
        "height": (int32, lambda row: row.size[0]),
        "n": (int32, lambda row: len(row.samples)),
        "time_base_num": (int64, lambda row: row.time_base.numerator),
        "time_base_den": (int64, lambda row: row.time_base.denominator),
        "index": (int64s, lambda row: row.samples.index),
        "pts": (int64s, lambda row: row.samples.pts),
        "is_concealed": (bools, lambda row: row.samples.is_concealed),
        "features": (features, lambda row: row.samples.features),
        "lost_index": (int64s, lambda row: [lost.index for lost in row.lost]),
        "lost_cause": (list_of(text), lambda row: [encodable(lost.cause) for lost in row.lost]),
        **{name: (pyarrow.float64(), attrgetter(f"made.times.{name}")) for name in TIMED},
        "cache_hit": (pyarrow.bool_(), lambda row: row.made.is_cached),
        "worker": (text, lambda row: encodable(row.made.worker)),
    }


def _lists(arrays: Sequence[NDArray[Any]], kind: Any, facts: TableFacts) -> Any:
    """Return a list column of type `kind` from the array of each row. Copies each array once."""
    import pyarrow

    if pyarrow.types.is_fixed_size_list(kind.value_type):
        flat = np.concatenate([array.ravel() for array in arrays], dtype=facts.dtype)
        values = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), type=kind.value_type)
    else:
        values = pyarrow.array(np.concatenate(arrays), kind.value_type)
    offsets = pyarrow.array(list(accumulate(map(len, arrays), initial=0)), pyarrow.int32())
    return pyarrow.ListArray.from_arrays(offsets, values, type=kind)


_NAMES: Final = ("chunk_id", "video", "path", "status")
_LISTED: Final = (*_NAMES, "index", "is_concealed", "lost_index", "lost_cause")
"""Columns that `TableFile.listed` reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """One row of the list of a table, and its position."""

    chunk_id: str
    video: str
    """Name of its video in the folder."""
    path: str
    """Path of its video at the time of extraction."""
    status: Literal["done", "failed"]
    first: int
    """Index of the first sample; -1 without samples."""
    outcome: Outcome
    """Counts of the chunk, without its features."""
    table: "TableFile"
    group: int
    """Index of its row group, the unit of reading."""
    place: int
    """Index of the row in its group."""


_REMEDY: Final = "delete it and run the same extraction again to recompute its content"


class TableFile:
    """Table with an intact footer. Holds no open file; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Read only the footer.

        Raises:
            ConfigError: the file is not a table of features, is damaged, or cannot be read.
        """
        import pyarrow.parquet

        self.path = path
        with self._table_errors():
            with pyarrow.parquet.ParquetFile(path) as file:
                self._metadata: Any = file.metadata
                schema = file.schema_arrow
            metadata = (schema.metadata or {}).get(METADATA)
            if metadata is None:
                raise ConfigError(f"{path} is not a table of features; move it elsewhere")
            try:
                self.facts = TableFacts.parse(metadata.decode(), path)
                """Facts shared by all rows."""
            except ConfigError as error:
                raise ConfigError(f"{error}; {_REMEDY}") from error
            if schema != schema_of(self.facts):
                raise ConfigError(
                    f"{path} is not a table of features: its columns differ; move it elsewhere"
                )

    def listed(self) -> list[Listed]:
        """Return its rows in order; reads small columns only.

        Raises:
            ConfigError: the table is damaged, or cannot be read.
        """
        listed = []
        for group in range(self._metadata.num_row_groups):
            rows = self.columns(group, _LISTED).to_pylist()
            with self._table_errors():
                for place, row in enumerate(rows):
                    index, lost = row["index"], _lost(row)
                    concealed = tuple(compress(index, row["is_concealed"]))
                    outcome = Outcome(came=len(index), lost=lost, concealed=concealed)
                    listed.append(
                        Listed(
                            **{name: row[name] for name in _NAMES},
                            first=next(iter(index), -1),
                            outcome=outcome,
                            table=self,
                            group=group,
                            place=place,
                        )
                    )
        return listed

    def columns(self, group: int, names: Sequence[str] | None = None) -> Any:
        """Return the columns `names` of a row group, by default all (about 10 MB), as a pyarrow
        table.

        Raises:
            ConfigError: the table is damaged, or cannot be read.
        """
        import pyarrow.parquet

        with (
            self._table_errors(),
            pyarrow.parquet.ParquetFile(
                self.path, metadata=self._metadata, page_checksum_verification=True
            ) as file,
        ):
            return file.read_row_group(group, columns=names, use_threads=False)

    def row(self, columns: Any, place: int) -> ChunkResult:
        """Return the row at `place` of a row group read with all columns. Copies its features.

        Raises:
            ConfigError: the table is damaged.
        """
        with self._table_errors():
            row = columns.drop_columns(["features"]).slice(place, 1).to_pylist()[0]
            flat = np.array(columns.column("features")[place].values.flatten(), self.facts.dtype)
            samples = Samples(
                index=np.array(row["index"], np.int64),
                pts=np.array(row["pts"], np.int64),
                is_concealed=np.array(row["is_concealed"], bool),
                features=flat.reshape(-1, *self.facts.shape),
            )
            if len(samples) != row["n"]:
                raise ValueError(f"{row['chunk_id']} has {len(samples)} samples, not {row['n']}")
            return ChunkResult(
                chunk_id=row["chunk_id"],
                video=VideoName(name=row["video"], path=row["path"], content=row["content"]),
                size=(row["height"], row["width"]),
                time_base=Fraction(row["time_base_num"], row["time_base_den"]),
                samples=samples,
                lost=_lost(row),
                error=row["error"],
                made=ResultInfo(
                    times=Times(**{name: row[name] for name in TIMED}),
                    is_cached=row["cache_hit"],
                    worker=row["worker"],
                ),
            )

    @contextmanager
    def _table_errors(self) -> Iterator[None]:
        """Turn errors of pyarrow into a ConfigError."""
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, ValueError, KeyError, TypeError, OSError) as error:
            if isinstance(error, ConfigError):
                raise
            if isinstance(error, OSError) and error.errno is not None:
                reason = os.strerror(error.errno).lower()
                raise ConfigError(f"cannot read {self.path}: {reason}") from error
            reason = " ".join(str(error).split()).rstrip(".")
            raise ConfigError(f"{self.path} is damaged: {reason}; {_REMEDY}") from error


def _lost(row: dict[str, Any]) -> tuple[Lost, ...]:
    return tuple(starmap(Lost, zip(row["lost_index"], row["lost_cause"], strict=True)))
