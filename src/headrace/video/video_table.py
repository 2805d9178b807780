"""Table: the rows of a text file of videos, as they are written, and the line of each."""

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from headrace.errors import ConfigError, reason_of
from headrace.video.source import refuse_address

PATH_COLUMNS: Final = ("path", "video", "file", "filename")
"""What the column of paths may be called."""
_KNOWN: Final = frozenset(
    [*PATH_COLUMNS, "label", "class", "start_seconds", "end_seconds", "stream", "weight", "group"]
)
_UNNAMED: Final = ("path", "label", "start_seconds", "end_seconds")


def column_name(head: str) -> str:
    """Return the name of a column: in small letters if it has a meaning then."""
    small = head.strip().lower()
    return small if small in _KNOWN else head.strip()


def named_columns(heads: Iterable[str], where: str) -> list[str]:
    """Return the names of columns as a file has them.

    Raises:
        ConfigError: two are the same.
    """
    names = [column_name(head) for head in heads]
    (name, count), *_ = [*Counter(names).most_common(1), ("", 0)]
    if count > 1:
        raise ConfigError(f"{where} has two columns {name!r}; give each a name of its own")
    return names


def path_column(heads: Iterable[str], where: str) -> str:
    """Return which of the columns holds paths.

    Raises:
        ConfigError: none does, or more than one.
    """
    names = list(heads)
    found = [name for name in names if name in PATH_COLUMNS]
    if len(found) != 1:
        is_one = len(names) == 1 and any(mark in names[0] for mark in ";\t|")
        hint = "; separate its values by commas" if is_one else ""
        raise ConfigError(
            f"{where} must have one column of paths, called {', '.join(PATH_COLUMNS[:-1])} or "
            f"{PATH_COLUMNS[-1]}; it has {', '.join(names)[:100] or 'no column'}{hint}"
        )
    return found[0]


def path_of(value: object, where: str) -> str:
    """Return the path that a row names.

    Raises:
        ConfigError: it is none; `where` says which row it is.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ConfigError(f"{where} names no video, but {value!r}; give its path")
    try:
        refuse_address(value.strip())
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return value.strip()


def unnamed_columns(first: list[str]) -> list[str] | None:
    """Return what the columns of a file without a line of names mean; None: it has such a line."""
    if not first or not is_video_name(first[0].strip()):
        return None
    return [*_UNNAMED[: len(first)], *(f"column {k}" for k in range(len(_UNNAMED), len(first)))]


VIDEO_SUFFIXES: Final = frozenset(
    [
        *(".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".ts", ".m2ts", ".mts", ".mpg"),
        *(".mpeg", ".flv", ".ogv", ".wmv", ".asf", ".3gp", ".mxf", ".h264", ".264", ".hevc"),
        *(".265", ".h265", ".ivf", ".y4m"),
    ]
)


def is_video_name(text: str) -> bool:
    """Return whether a path ends as those of videos do."""
    return Path(text).suffix.lower() in VIDEO_SUFFIXES


def separated_rows(
    path: Path, text: str, *, delimiter: str
) -> tuple[list[str], list[tuple[int, dict[str, str | None]]]]:
    """Return the names of columns, and of each row its line, from 1, and its values.

    A value that is not there is None. The first line names the columns, or is a row, if its first
    cell is named like a video.

    Args:
        path: Of the file, for messages.
        text: Its content.
        delimiter: Between values.

    Raises:
        ConfigError: a quote is not closed, a row has too many values, two columns have one name.
    """
    records = _records(path, text, delimiter)
    line, first = next(records, (0, []))
    heads = unnamed_columns(first)
    found: list[tuple[int, dict[str, str | None]]] = []
    if heads is None:
        heads = named_columns(first, str(path))
    else:
        found.append((line, dict(zip_longest(heads, first))))
    for line, cells in records:
        if len(cells) > len(heads):
            raise ConfigError(
                f"line {line} of {path} has more values than the first line has columns; write "
                'one with a comma in quotes, as in "cats, dogs"'
            )
        found.append((line, dict(zip_longest(heads, cells))))
    return heads, found


def _records(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    # Strictly: a quote that is never closed would else take in all lines that follow.
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True
    )
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise ConfigError(f"line {line} of {path} is no CSV: {error}") from error
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield line, cells


Row = dict[str, Any]

_LARGEST_BYTES: Final = 1 << 28


@dataclass(frozen=True, kw_only=True)
class VideoTable:
    """Rows, each from column to what stands there, and where each of them stands."""

    name: str
    heads: tuple[str, ...]
    """The names of its columns."""
    rows: list[Row]
    lines: tuple[int, ...]
    """Of each row: the line it begins on, from 1."""

    def where(self, row: int) -> str:
        """Return what to call a row in a message."""
        return f"line {self.lines[row]} of {self.name}"


def read_table(path: Path, what: str) -> VideoTable:
    """Return the rows of a file, by its suffix: .jsonl, .tsv, .txt, any other as CSV.

    A CSV or .tsv whose first cell is named like a video has no line of names: its columns are path,
    label, start_seconds, end_seconds and "column 4", "column 5". A .txt, and a CSV whose first line
    is written so, has lines "path label", the label left out or not; a path may hold blanks if it
    ends as videos do. A .txt whose first line names columns of a CSV is one. Lines that say nothing
    are passed over, names of columns that have a meaning may be in capitals, a byte order mark may
    begin the file.

    Args:
        path: A text in UTF-8 of at most 256 MiB. Reads all of it.
        what: To call it in messages, such as "manifest".

    Raises:
        ConfigError: it cannot be read, or a line is not as the others.
    """
    text, kind = _text(path, what), path.suffix.lower()
    if kind == ".jsonl" or _is_labelled(text, kind):
        found = list(_json_lines(path, text) if kind == ".jsonl" else _labelled(text))
        heads = list(dict.fromkeys(head for _, row in found for head in row))
    else:
        delimiter = "\t" if kind == ".tsv" else ","
        heads, found = separated_rows(path, text, delimiter=delimiter)
    return VideoTable(
        name=str(path),
        heads=tuple(heads),
        rows=[row for _, row in found],
        lines=tuple(line for line, _ in found),
    )


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise ConfigError(f"{path} is larger than {_LARGEST_BYTES >> 20} MiB; is it a {what}?")
        text = content.decode("utf-8-sig")
    except OSError as error:
        reason = reason_of(error)
        raise ConfigError(f"cannot read the {what} {path}: {reason}; give a file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the {what} {path} is no text in UTF-8; write it as such") from error
    if "\0" in text:
        raise ConfigError(f"the {what} {path} holds a character 0; is it a text?")
    return text


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # By the ends of lines alone: str.splitlines ends them at characters that JSON may hold.
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if line.strip():
            yield number, line.strip()


def _is_labelled(text: str, kind: str) -> bool:
    """Return whether lines are "path label", by the first of them."""
    first = next(_lines(text), (0, ""))[1]
    cells = [cell.strip().strip('"') for cell in first.split(",")]
    if kind == ".tsv":
        return False
    if is_video_name(cells[0]):
        return kind == ".txt" and (len(cells) == 1 or is_video_name(first))
    if _end_of_path(first):
        return True
    names_columns = len(cells) > 1 and any(column_name(cell) in PATH_COLUMNS for cell in cells)
    return kind == ".txt" and not names_columns


def _labelled(text: str) -> Iterator[tuple[int, Row]]:
    for number, line in _lines(text):
        end = 0 if is_video_name(line) else _end_of_path(line)
        path, label = (line[:end], line[end:].strip()) if end else (line, "")
        yield number, {"path": path, "label": label} if label else {"path": path}


def _end_of_path(line: str) -> int:
    """Return where the path of a line "path label" ends; 0: nowhere."""
    ends = (match.start() for match in re.finditer(r"\s+", line))
    return next((end for end in ends if is_video_name(line[:end])), 0)


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, Row]]:
    for number, line in _lines(text):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"line {number} of {path} is no JSON: {line[:60]!r}") from error
        if isinstance(row, str):
            row = {"path": row}
        if not isinstance(row, dict):
            raise ConfigError(
                f"line {number} of {path} is no JSON object, such as "
                f'{{"path": "a.mp4", "label": "cats"}}: {line[:60]!r}'
            )
        yield number, {column_name(head): row[head] for head in row}
