"""The file of labels: which class a video, or a part of it, belongs to."""

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError
from headrace.video.manifest import columns_of

_PATH: Final = ("path", "video", "file", "filename")
_LABEL: Final = ("label", "class")
_UNNAMED: Final = ("path", "label", "start_seconds", "end_seconds")
_LARGEST_BYTES: Final = 1 << 28
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
    first line: columns come in this order then.

    Raises:
        ConfigError: it cannot be read, has no such columns, no line, or one that says nothing.
    """
    lines = _lines(path)
    reader = csv.DictReader(lines, columns_of(lines, _UNNAMED), skipinitialspace=True)
    try:
        heads = reader.fieldnames or ()
        columns = {
            name: next((head for head in heads if head.strip().lower() in names), None)
            for name, names in (("path", _PATH), ("label", _LABEL))
        }
        if None in columns.values():
            found = ", ".join(heads)[:80] or "nothing"
            raise ConfigError(f"{path} has no columns path and label, but {found}; {_EXAMPLE}")
        rows = tuple(_rows(path, reader, columns["path"] or "", columns["label"] or ""))
    except csv.Error as error:
        raise ConfigError(f"{path} is no CSV behind line {reader.line_num}: {error}") from error
    if not rows:
        raise ConfigError(f"{path} holds no label; {_EXAMPLE}, then one line for each video")
    return rows


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path} is larger than {_LARGEST_BYTES >> 20} MiB; is it a list?")
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot read the labels {path}: {reason}; give a CSV file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the labels {path} are no text in UTF-8; give a CSV file") from error


def _rows(
    path: Path, reader: "csv.DictReader[str]", path_column: str, label_column: str
) -> Iterator[LabelRow]:
    for row in reader:
        where = f"line {reader.line_num} of {path}"
        name, label = (str(row[column] or "").strip() for column in (path_column, label_column))
        if None in row:
            raise ConfigError(
                f"{where} has more values than the first line has columns; write one with a comma "
                'in quotes, as in "cats, dogs"'
            )
        if "\0" in name + label:
            raise ConfigError(f"{where} holds a character 0; is {path} a text?")
        if not name or not label:
            raise ConfigError(f"{where} has no {'label' if name else 'path'}; {_EXAMPLE}")
        start = _seconds(row, "start_seconds", where, 0.0)
        end = _seconds(row, "end_seconds", where, math.inf)
        if end <= start:
            raise ConfigError(
                f"{where} ends at {end:g} s, which is not after its start at {start:g} s"
            )
        yield LabelRow(
            line=reader.line_num,
            path=path.parent / name,
            label=label,
            start_seconds=start,
            end_seconds=end,
        )


def _seconds(row: Mapping[str, str | None], column: str, where: str, default: float) -> float:
    text = (row.get(column) or "").strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ConfigError(f"{where} has {text!r} for {column}; it takes seconds, such as 12.5")
    return number
