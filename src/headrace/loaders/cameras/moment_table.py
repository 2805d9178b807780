"""MomentTable: rows of a metadata table, joined to moments by frame number or time."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data._utils.collate import default_collate_fn_map

from headrace.errors import ConfigError, HeadraceError, in_words
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.loaders.cameras.camera_times import (
    CLIP_COLUMNS,
    TimeUnit,
    column_named,
    name_in,
    parse_frame_number,
    parse_time,
    time_column,
)
from headrace.loaders.manifest_rows import RowPlaces, column_of, named_path, read_rows, table_of
from headrace.sampling.moments import MISSING
from headrace.units import check_numbers


@dataclass(frozen=True, kw_only=True)
class ClipMoment:
    """Moment whose metadata is requested."""

    number: int
    """Number of its frame of the reference; `index` in a batch."""
    seconds: float
    """Time of the moment on the common clock."""
    frames: Mapping[str, int]
    """Camera → number of its frame, in the order of the batch, without cameras that have none."""
    cameras: tuple[str, ...]
    """All cameras, in the order of the batch."""


MetadataOf = Callable[[str, ClipMoment], Mapping[str, Any]]
"""Function of (clip name, moment) that returns the moment's metadata, such as a `MomentTable` or
`NuScenes.metadata`. Called in a DataLoader's worker, or in a loader's iterating thread."""


class MomentMetadata(dict[str, Any]):
    """Metadata of one moment by name. A stock DataLoader collates it to a list, not to tensors.

    The default collate of a dict would stack each entry, and fail for empty slots and moments
    without metadata, which lack entries.
    """


def _collate_to_list(
    batch: Sequence[MomentMetadata], *, collate_fn_map: object = None
) -> list[MomentMetadata]:
    return list(batch)


# Registration of a custom type: torch.utils.data.default_collate, "Option 2".
default_collate_fn_map[MomentMetadata] = _collate_to_list


def call_metadata(metadata: MetadataOf, cameras: CameraSet, clip: int, row: int) -> MomentMetadata:
    """Return the metadata of a moment: a row of the set's table, in a clip. Row -1 has none.

    Raises:
        ConfigError: `metadata` fails, or does not return a mapping; names clip and moment.
    """
    if row < 0:
        return MomentMetadata()
    frames = zip(cameras.cameras, cameras.frame[row].tolist(), strict=True)
    moment = ClipMoment(
        number=int(cameras.index[row]),
        seconds=float(cameras.moment_seconds[row]),
        frames={camera: frame for camera, frame in frames if frame != MISSING},
        cameras=cameras.cameras,
    )
    name = cameras.clips[clip].clip.name
    where = f"metadata of clip {name!r}, moment {moment.number} ({moment.seconds:.6f} s)"
    try:
        result = metadata(name, moment)
    except HeadraceError:
        raise
    except Exception as error:  # A StopIteration would end the epoch silently.
        raise ConfigError(
            f"{where} failed: {in_words(error)}; its arguments are the name of a clip, and a "
            "moment with number, seconds and frames"
        ) from error
    if not isinstance(result, Mapping):
        raise ConfigError(
            f"{where} must be a mapping by name, such as {{}}, got {type(result).__name__}"
        )
    return MomentMetadata(result)


def check_metadata(metadata: object) -> None:
    """Raise ConfigError if `metadata` is neither None nor callable."""
    if metadata is not None and not callable(metadata):
        raise ConfigError(
            "metadata must be a function of (clip name, moment) or a MomentTable, got "
            f"{type(metadata).__name__}; for a file use MomentTable.read(path)"
        )


_SLACK_SECONDS = 1e-6
"""Rounding error of float64 seconds since 1970."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentTable:
    """Metadata from a table: `CameraLoader(..., metadata=MomentTable.read("poses.csv"))`.

    The metadata of a moment is a dict of the other columns of its row; a column that holds only
    numbers is numeric. {} for a moment without a row, such as between key frames.
    """

    rows: Mapping[str, tuple[NDArray[np.float64], tuple[Mapping[str, Any], ...]]]
    """Clip → float64 [rows], ascending: numbers of moments, or seconds; and the rows."""
    by_time: bool
    """Whether rows are joined by time, not by the moment's number."""
    tolerance_ms: float
    """Max distance of a row's time from its moment, in milliseconds."""
    name: str
    """Name in messages: the path of the file."""

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        unit: TimeUnit | None = None,
        tolerance_ms: float = 1.0,
    ) -> "MomentTable":
        """Read a CSV, .tsv, JSON lines or Parquet file. Reads all of it.

        Args:
            path: Path of the file. Its columns are clip (or scene), and frame, the moment's number
                (`index` in a batch); or, without frame, a time: seconds, timestamp_us, ... as for
                `CameraTimes.read`.
            unit: Unit of a column called timestamp.
            tolerance_ms: Max distance of a row's time from the moment; the nearest row is used.

        Raises:
            ConfigError: the file cannot be read, lacks a column, or has two rows for one moment.
            BackendError: the file is Parquet, and pyarrow is not installed.
        """
        rows, places = read_rows(named_path(path, "a table of moments"), "table of moments")
        return cls._join(rows, places, unit, tolerance_ms)

    @classmethod
    def of_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        *,
        unit: TimeUnit | None = None,
        tolerance_ms: float = 1.0,
        name: str = "the table of moments",
    ) -> "MomentTable":
        """Return a table of rows that are dicts; arguments and errors as for `read`."""
        table = table_of(rows, name)
        return cls._join(table, RowPlaces.of_rows(len(table), name), unit, tolerance_ms)

    @classmethod
    def _join(
        cls,
        rows: list[dict[str, Any]],
        places: RowPlaces,
        unit: TimeUnit | None,
        tolerance_ms: float,
    ) -> "MomentTable":
        check_numbers(0, tolerance_ms=tolerance_ms)
        headers = list(dict.fromkeys(header for row in rows for header in row))
        clip_column = column_named(headers, CLIP_COLUMNS, places.name)
        by_time, key, key_unit = "frame" not in headers, "frame", None
        if by_time:
            key, key_unit = time_column(headers, unit, f"{places.name} without a column frame")
        keys: dict[str, list[tuple[float, int]]] = {}
        for number, row in enumerate(rows):
            where = places.where(number)
            clip = name_in(row, clip_column, where)
            value = (
                parse_frame_number(row.get(key), where)
                if key_unit is None
                else parse_time(row.get(key), key_unit, f"{key} of {where}")
            )
            keys.setdefault(clip, []).append((value, number))
        others = [header for header in headers if header not in (clip_column, key)]
        columns = {header: _column_values(header, rows, places) for header in others}
        return cls(
            rows={clip: _sort_rows(pairs, columns, places) for clip, pairs in keys.items()},
            by_time=by_time,
            tolerance_ms=tolerance_ms,
            name=places.name,
        )

    def __call__(self, clip: str, moment: ClipMoment) -> Mapping[str, Any]:
        """Return the row of a moment; {}: it has none.

        Raises:
            ConfigError: the table has no row of the clip.
        """
        if clip not in self.rows:
            names = ", ".join(sorted(self.rows)[:6])
            raise ConfigError(f"{self.name} has no row of clip {clip!r}; it has {names}")
        keys, rows = self.rows[clip]
        key = moment.seconds if self.by_time else moment.number
        nearest = int(np.abs(keys - key).argmin())
        tolerance = self.tolerance_ms / 1000 + _SLACK_SECONDS if self.by_time else 0.0
        return rows[nearest] if abs(keys[nearest] - key) <= tolerance else {}


def _sort_rows(
    keys: list[tuple[float, int]], columns: Mapping[str, Sequence[Any]], places: RowPlaces
) -> tuple[NDArray[np.float64], tuple[Mapping[str, Any], ...]]:
    """Return the keys of a clip's rows, ascending, and the other columns of each row."""
    keys.sort()
    for (before, first), (after, second) in pairwise(keys):
        if before == after:
            raise ConfigError(
                f"{places.where(first)} and {places.where(second)} are of the same moment of a "
                "clip; merge the rows, or use a function as metadata="
            )
    rows = tuple({name: values[number] for name, values in columns.items()} for _, number in keys)
    return np.array([key for key, _ in keys], np.float64), rows


def _column_values(
    name: str, rows: Sequence[Mapping[str, Any]], places: RowPlaces
) -> Sequence[Any]:
    """Return the values of a column; texts that are all numbers become numbers."""
    values = [row.get(name) for row in rows]
    if all(value is None or isinstance(value, str) for value in values):
        column: list[Any] = column_of(name, values, places).tolist()
        return column
    return values
