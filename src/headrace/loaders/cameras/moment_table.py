"""MomentTable: a table whose rows belong to moments, joined by clip and frame, or time."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data._utils.collate import default_collate_fn_map

from headrace.errors import ConfigError, HeadraceError, in_words
from headrace.loaders.cameras.aligned_clip import AlignedClip
from headrace.loaders.cameras.camera_times import (
    TimeUnit,
    frame_number,
    has_time,
    seconds_of,
    time_column,
)
from headrace.loaders.manifest_rows import (
    RowPlaces,
    column_of,
    is_missing,
    named_path,
    read_rows,
    table_of,
)
from headrace.sampling.moment_windows import MISSING
from headrace.units import check_numbers


@dataclass(frozen=True, kw_only=True)
class ClipMoment:
    """The moment that metadata is asked for."""

    number: int
    """In the reference's own count: `index` of a batch."""
    seconds: float
    """When it is, on the common clock."""
    frames: Mapping[str, int]
    """Camera → the number of the frame that is shown for it; cameras without one are not in it. In
    the order of the batch."""
    cameras: tuple[str, ...]
    """All cameras, in the order of the batch."""


MetadataOf = Callable[[str, ClipMoment], Mapping[str, Any]]
"""(name of the clip, moment) → what belongs to it. A table, `MomentTable`, is one; so is
`NuScenes.metadata`. Called in the worker that decodes, or in the thread that takes batches."""


class MomentMetadata(dict[str, Any]):
    """What belongs to a moment, by name. A stock DataLoader makes a list of those of a batch.

    A plain dict it would take apart, and stack what it finds under each name, for which slots that
    have run out of clips, and moments that lack something, have nothing.
    """


def _as_list(
    batch: Sequence[MomentMetadata], *, collate_fn_map: object = None
) -> list[MomentMetadata]:
    return list(batch)


# What PyTorch offers for types of one's own: torch.utils.data.default_collate, "Option 2".
default_collate_fn_map[MomentMetadata] = _as_list


def metadata_of(
    metadata: MetadataOf, of: AlignedClip, row: int, cameras: tuple[str, ...]
) -> MomentMetadata:
    """Return what belongs to a moment of a clip, row of it, whose cameras are called `cameras`.

    Raises:
        ConfigError: `metadata` failed, or returned no mapping; names clip and moment.
    """
    frames = zip(cameras, of.frames[row].tolist(), strict=True)
    moment = ClipMoment(
        number=int(of.moments[row]),
        seconds=float(of.moment_seconds[row]),
        frames={camera: frame for camera, frame in frames if frame != MISSING},
        cameras=cameras,
    )
    clip = of.clip.name
    where = f"metadata of clip {clip!r}, moment {moment.number} ({moment.seconds:.6f} s)"
    try:
        found = metadata(clip, moment)
    except HeadraceError:
        raise
    except Exception as error:  # Whatever it is; StopIteration would end the epoch in silence.
        raise ConfigError(
            f"{where} failed: {in_words(error)}; it is called with the name of a clip, and a "
            "moment with number, seconds and frames"
        ) from error
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"{where} must be a mapping by name, such as {{}}, got {type(found).__name__}"
        )
    return MomentMetadata(found)


def check_metadata(metadata: object) -> None:
    """Raise ConfigError if `metadata` is neither None nor something that can be called."""
    if metadata is not None and not callable(metadata):
        raise ConfigError(
            "metadata must be a function of (clip name, moment), or a MomentTable, got "
            f"{type(metadata).__name__}; for a file there is MomentTable.read(path)"
        )


_CLIP_COLUMNS = ("clip", "scene")
_SLACK_SECONDS = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentTable:
    """Metadata from a table: `CameraLoader(..., metadata=MomentTable.read("poses.csv"))`.

    The row of a moment comes as a dict of its other columns, of numbers where a column has nothing
    else; {} where a moment has none, as between key frames.
    """

    rows: Mapping[str, tuple[NDArray[np.float64], tuple[Mapping[str, Any], ...]]]
    """Clip → float64 [rows], ascending: numbers of moments, or seconds; and the rows."""
    by_time: bool
    """Whether rows are joined by time: else by the moment's number."""
    tolerance_ms: float
    """How far a row may be from its moment in time."""
    name: str

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
            path: Of the file. Columns: clip (or scene); frame, the moment's number as `index` of
                a batch has it; or, without it, a time: seconds, timestamp_us, ... as
                `CameraTimes.read` has them.
            unit: Of a column called timestamp.
            tolerance_ms: How far a time may be from that of the moment; the nearest row counts.

        Raises:
            ConfigError: it cannot be read, lacks such columns, or has two rows for a moment.
            BackendError: it is Parquet, and pyarrow is not installed.
        """
        rows, places = read_rows(named_path(path, "a table of moments"), "table of moments")
        return cls._of(rows, places, unit, tolerance_ms)

    @classmethod
    def of_rows(
        cls,
        rows: Iterable[Mapping[str, Any]],
        *,
        unit: TimeUnit | None = None,
        tolerance_ms: float = 1.0,
        name: str = "the table of moments",
    ) -> "MomentTable":
        """Return the table of rows that are dicts; arguments as for `read`."""
        found = table_of(rows, name)
        return cls._of(found, RowPlaces.of_rows(len(found), name), unit, tolerance_ms)

    @classmethod
    def _of(
        cls,
        rows: list[dict[str, Any]],
        places: RowPlaces,
        unit: TimeUnit | None,
        tolerance_ms: float,
    ) -> "MomentTable":
        check_numbers(0, tolerance_ms=tolerance_ms)
        heads = list(dict.fromkeys(head for row in rows for head in row))
        clips = [name for name in _CLIP_COLUMNS if name in heads]
        if len(clips) != 1 or not ("frame" in heads or has_time(heads)):
            raise ConfigError(
                f"{places.name} must have a column called {' or '.join(_CLIP_COLUMNS)}, and frame, "
                f"or one of times; it has {', '.join(map(str, heads))[:100] or 'no column'}"
            )
        by_time = "frame" not in heads
        key, of_key = time_column(heads, unit, places.name) if by_time else ("frame", "s")
        found: dict[str, list[tuple[float, int]]] = {}
        for number, row in enumerate(rows):
            where = places.where(number)
            if is_missing(row.get(clips[0])):
                raise ConfigError(f"{where} has no {clips[0]}; give it one, or leave it out")
            at = (
                seconds_of(row.get(key), of_key, f"{key} of {where}")
                if by_time
                else frame_number(row.get(key), where)
            )
            found.setdefault(str(row[clips[0]]).strip(), []).append((at, number))
        rest = [head for head in heads if head not in (clips[0], key)]
        columns = {head: _values(head, rows, places) for head in rest}
        return cls(
            rows={clip: _joined(keys, columns, places) for clip, keys in found.items()},
            by_time=by_time,
            tolerance_ms=tolerance_ms,
            name=places.name,
        )

    def __call__(self, clip: str, moment: ClipMoment) -> Mapping[str, Any]:
        """Return the row of a moment; {} if there is none.

        Raises:
            ConfigError: the table has nothing of the whole clip.
        """
        if clip not in self.rows:
            some = ", ".join(sorted(self.rows)[:6])
            raise ConfigError(f"{self.name} has no row of clip {clip!r}; it has {some}")
        keys, rows = self.rows[clip]
        at = moment.seconds if self.by_time else moment.number
        place = int(np.abs(keys - at).argmin())
        within = self.tolerance_ms / 1000 + _SLACK_SECONDS if self.by_time else 0.0
        return rows[place] if abs(keys[place] - at) <= within else {}


def _joined(
    keys: list[tuple[float, int]], columns: Mapping[str, Sequence[Any]], places: RowPlaces
) -> tuple[NDArray[np.float64], tuple[Mapping[str, Any], ...]]:
    """Return the keys of a clip's rows, ascending, and the rest of each row."""
    keys.sort()
    for (before, first), (after, second) in pairwise(keys):
        if before == after:
            raise ConfigError(
                f"{places.where(first)} and {places.where(second)} are of one moment of a clip; "
                "make them one row, or give metadata= a function"
            )
    kept = tuple({name: values[number] for name, values in columns.items()} for _, number in keys)
    return np.array([at for at, _ in keys], np.float64), kept


def _values(name: str, rows: Sequence[Mapping[str, Any]], places: RowPlaces) -> Sequence[Any]:
    """Return the values of a column; as numbers, where a text file has nothing else in it."""
    values = [row.get(name) for row in rows]
    if all(value is None or isinstance(value, str) for value in values):
        found: list[Any] = column_of(name, values, places).tolist()
        return found
    return values
