"""Columns of a CSV file, joined to videos by name or path. Needs pyarrow."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import Any, Final

from headrace.errors import ConfigError, reason_of
from headrace.extraction.features.feature_folder import ListedVideo
from headrace.extraction.features.table_columns import encodable

_NAMES: Final = ("path", "video", "file", "filename")
"""Possible names of the column that identifies a video."""


@dataclass(frozen=True, eq=False)
class JoinedColumns:
    """Columns for videos."""

    columns: Any
    """pyarrow table with a row for each video, in order; null for videos without a row."""
    without: tuple[str, ...]
    """Videos without a row in the file."""


def join(path: Path, videos: Mapping[str, ListedVideo], taken: Sequence[str]) -> JoinedColumns:
    """Return the columns of a CSV file for videos. Types are inferred from the values.

    A row belongs to the video with its name or path; a relative path is relative to the folder of
    the file. Rows of other videos are ignored.

    Args:
        path: CSV file; its first line names the columns, one of them path, video, file or filename.
        videos: Name → video.
        taken: Column names that are not allowed.

    Raises:
        ConfigError: the file cannot be read, is malformed, has two rows for one video, no row for
            any video, or a column name that is not allowed.
    """
    table = _read(path)
    key = next(filter(_is_key, table.column_names), None)
    others = [name for name in table.column_names if name != key]
    if key is None or not others:
        raise ConfigError(
            f"{path} has the columns {', '.join(table.column_names)[:80]}; it must have one of "
            f"{', '.join(_NAMES[:-1])} and {_NAMES[-1]}, and another one to join"
        )
    clash = [name for name in others if name in taken or others.count(name) > 1]
    if clash:
        raise ConfigError(
            f"{path} has a column {clash[0]}, which is there already; give it another name"
        )
    rows = _rows(path, table.column(key).to_pylist(), videos)
    without = tuple(name for name in videos if name not in rows)
    if len(without) == len(videos):
        raise ConfigError(
            f"{path} says nothing of any video; {key} must be a name, such as "
            f"{next(iter(videos), '')}, or a path, such as "
            f"{next((video.path for video in videos.values()), '')}"
        )
    row_numbers = _places([rows.get(name) for name in videos])
    return JoinedColumns(table.select(others).take(row_numbers), without)


def _is_key(column: str) -> bool:
    return column.strip().lower() in _NAMES


def _read(path: Path) -> Any:
    import pyarrow.csv

    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next(csv.reader(file), [])
        # Otherwise the name 007 would become the number 7.
        keys = {name: pyarrow.string() for name in names if _is_key(name)}
        return pyarrow.csv.read_csv(
            path, convert_options=pyarrow.csv.ConvertOptions(column_types=keys)
        )
    except OSError as error:
        reason = reason_of(error)
        raise ConfigError(f"cannot read {path}: {reason}; give a CSV file") from error
    except (pyarrow.ArrowException, UnicodeDecodeError, csv.Error) as error:
        what = " ".join(str(error).split())
        raise ConfigError(f"{path} is no CSV file in UTF-8: {what}") from error


def _rows(
    path: Path, keys: Sequence[str | None], videos: Mapping[str, ListedVideo]
) -> dict[str, int]:
    """Return the row number of each video in the file, from 0."""
    by_path = {normpath(video.path): name for name, video in videos.items()}
    rows: dict[str, int] = {}
    for row, key in enumerate(key or "" for key in keys):
        plain = key.strip()
        path_of_key = normpath(encodable(str((path.parent / plain).absolute()))) if plain else ""
        name = plain if plain in videos else by_path.get(path_of_key)
        if name is None:
            continue
        if name in rows:
            raise ConfigError(
                f"rows {rows[name] + 1} and {row + 1} of {path} are both of the video {name}; "
                "leave one of them"
            )
        rows[name] = row
    return rows


def _places(rows: Sequence[int | None]) -> Any:
    import pyarrow

    return pyarrow.array(rows, pyarrow.int64())
