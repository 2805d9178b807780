"""The file of labels: which class a video, or a part of it, belongs to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError
from headrace.video.columns import PATH_COLUMNS, path_column, path_of
from headrace.video.table import read_table

_LABEL: Final = ("label", "class")
_EXAMPLE: Final = (
    "the first line names the columns, path,label, and may add start_seconds,end_seconds"
)


@dataclass(frozen=True, kw_only=True)
class LabelRow:
    """One line: a video, or a part of it, and its class."""

    line: int
    """In the file, from 1."""
    path: Path
    """Of the video; a relative path begins where the file of labels lies."""
    label: str
    start_seconds: float
    """Presentation time from which on the label holds."""
    end_seconds: float
    """Presentation time before which it holds; infinite: to the end of the video."""


def read_labels(path: Path) -> tuple[LabelRow, ...]:
    """Return the lines of a CSV file of labels.

    path,label,start_seconds,end_seconds
    street.mp4,cars,0,12.5
    street.mp4,people,12.5,
    park.mp4,people,,

    The columns of seconds may be left out: the label is then that of the whole video. So may the
    first line: columns come in this order then. Lists are read as `video/table.py` says.

    Raises:
        ConfigError: it cannot be read, has no such columns, no line, or one that says nothing.
    """
    table = read_table(path, "file of labels")
    label = next((head for head in table.heads if head in _LABEL), None)
    if label is None or not any(head in PATH_COLUMNS for head in table.heads):
        found = ", ".join(map(str, table.heads))[:80] or "nothing"
        raise ConfigError(f"{path} has no columns path and label, but {found}; {_EXAMPLE}")
    column = path_column(table.heads, str(path))
    if not table.rows:
        raise ConfigError(f"{path} holds no label; {_EXAMPLE}, then one line for each video")
    return tuple(
        _row(row, table.lines[number], table.where(number), path.parent, column, label)
        for number, row in enumerate(table.rows)
    )


def _row(
    row: Mapping[str, object], line: int, where: str, folder: Path, column: str, label: str
) -> LabelRow:
    if not str(row.get(label) or "").strip():
        raise ConfigError(f"{where} has no label; {_EXAMPLE}")
    start = _seconds(row, "start_seconds", where, 0.0)
    end = _seconds(row, "end_seconds", where, math.inf)
    if end <= start:
        raise ConfigError(f"{where} ends at {end:g} s, which is not after its start at {start:g} s")
    return LabelRow(
        line=line,
        path=folder / path_of(row.get(column), where),
        label=str(row[label]).strip(),
        start_seconds=start,
        end_seconds=end,
    )


def _seconds(row: Mapping[str, object], column: str, where: str, default: float) -> float:
    text = "" if row.get(column) is None else str(row[column]).strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ConfigError(f"{where} has {text!r} for {column}; it takes seconds, such as 12.5")
    return number
