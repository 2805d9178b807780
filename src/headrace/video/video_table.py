"""Video table: the rows of a text file of videos, with their line numbers."""

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
"""Accepted names of the column of paths."""
_KNOWN: Final = frozenset(
    [*PATH_COLUMNS, "label", "class", "start_seconds", "end_seconds", "stream", "weight", "group"]
)
_UNNAMED: Final = ("path", "label", "start_seconds", "end_seconds")


def column_name(head: str) -> str:
    """Return the name of a column, in lower case if it is a known one."""
    small = head.strip().lower()
    return small if small in _KNOWN else head.strip()


def named_columns(heads: Iterable[str], where: str) -> list[str]:
    """Return the column names of a file.

    Raises:
        ConfigError: two are the same.
    """
    names = [column_name(head) for head in heads]
    (name, count), *_ = [*Counter(names).most_common(1), ("", 0)]
    if count > 1:
        raise ConfigError(f"{where} has two columns {name!r}; give each a name of its own")
    return names


def path_column(heads: Iterable[str], where: str) -> str:
    """Return the name of the column of paths.

    Raises:
        ConfigError: none of the columns, or more than one, holds paths.
    """
    names = list(heads)
    rows = [name for name in names if name in PATH_COLUMNS]
    if len(rows) != 1:
        is_one = len(names) == 1 and any(mark in names[0] for mark in ";\t|")
        hint = "; separate its values by commas" if is_one else ""
        raise ConfigError(
            f"{where} must have one column of paths, called {', '.join(PATH_COLUMNS[:-1])} or "
            f"{PATH_COLUMNS[-1]}; it has {', '.join(names)[:100] or 'no column'}{hint}"
        )
    return rows[0]


def path_of(value: object, where: str) -> str:
    """Return the path of a row.

    Raises:
        ConfigError: it is no path; `where` names the row.
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


VIDEO_SUFFIXES: Final = frozenset(
    [
        *(".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".ts", ".m2ts", ".mts", ".mpg"),
        *(".mpeg", ".flv", ".ogv", ".wmv", ".asf", ".3gp", ".mxf", ".h264", ".264", ".hevc"),
        *(".265", ".h265", ".ivf", ".y4m"),
    ]
)


def is_video_name(text: str) -> bool:
    """Return whether a path has a video suffix."""
    return Path(text).suffix.lower() in VIDEO_SUFFIXES


def separated_rows(
    path: Path, text: str, *, delimiter: str
) -> tuple[list[str], list[tuple[int, dict[str, str | None]]]]:
    """Return the column names, and per row its line number, from 1, and its values.

    A missing value is None. The first line holds column names, or is a row if its first value is a
    video path.

    Args:
        path: The file, for messages.
        text: Its content.
        delimiter: Between values.

    Raises:
        ConfigError: a quote is not closed, a row has too many values, or two columns have one name.
    """
    records = _records(path, text, delimiter)
    line, first = next(records, (0, []))
    rows: list[tuple[int, dict[str, str | None]]] = []
    if first and is_video_name(first[0].strip()):
        more = (f"column {k}" for k in range(len(_UNNAMED), len(first)))
        heads = [*_UNNAMED[: len(first)], *more]
        rows.append((line, dict(zip_longest(heads, first))))
    else:
        heads = named_columns(first, str(path))
    for line, cells in records:
        if len(cells) > len(heads):
            raise ConfigError(
                f"line {line} of {path} has more values than the first line has columns; write "
                'one with a comma in quotes, as in "cats, dogs"'
            )
        rows.append((line, dict(zip_longest(heads, cells))))
    return heads, rows


def _records(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    # Strict: an unclosed quote would otherwise swallow all later lines.
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

_MAX_BYTES: Final = 1 << 28


@dataclass(frozen=True, kw_only=True)
class VideoTable:
    """Rows as column -> value, with their line numbers."""

    name: str
    heads: tuple[str, ...]
    """Column names."""
    rows: list[Row]
    lines: tuple[int, ...]
    """Line number of each row's first line, from 1."""

    def where(self, row: int) -> str:
        """Return the name of a row for messages."""
        return f"line {self.lines[row]} of {self.name}"


def read_table(path: Path, what: str) -> VideoTable:
    """Return the rows of a file, by its suffix: .jsonl, .tsv, .txt, any other as CSV.

    A CSV or .tsv whose first value is a video path has no header: its columns are path, label,
    start_seconds, end_seconds and "column 4", "column 5". A .txt, and a CSV with a first line in
    that form, has lines "path label", with an optional label; a path may hold spaces if it ends in
    a video suffix. A .txt whose first line is a CSV header is a CSV. Empty lines are skipped, known
    column names may be in capitals, and a byte order mark is accepted.

    Args:
        path: A text in UTF-8 of at most 256 MiB. Reads all of it.
        what: Kind of file in messages, such as "manifest".

    Raises:
        ConfigError: the file cannot be read, or a line has another form than the others.
    """
    text, kind = _text(path, what), path.suffix.lower()
    if kind == ".jsonl" or _is_labelled_rows(text, kind):
        rows = list(_json_lines(path, text) if kind == ".jsonl" else _labelled_rows(text))
        heads = list(dict.fromkeys(head for _, row in rows for head in row))
    else:
        delimiter = "\t" if kind == ".tsv" else ","
        heads, rows = separated_rows(path, text, delimiter=delimiter)
    return VideoTable(
        name=str(path),
        heads=tuple(heads),
        rows=[row for _, row in rows],
        lines=tuple(line for line, _ in rows),
    )


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ConfigError(f"{path} is larger than {_MAX_BYTES >> 20} MiB; is it a {what}?")
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
    # By line ends only: str.splitlines also splits at characters that JSON may hold.
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if line.strip():
            yield number, line.strip()


def _is_labelled_rows(text: str, kind: str) -> bool:
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


def _labelled_rows(text: str) -> Iterator[tuple[int, Row]]:
    for number, line in _lines(text):
        end = 0 if is_video_name(line) else _end_of_path(line)
        path, label = (line[:end], line[end:].strip()) if end else (line, "")
        yield number, {"path": path, "label": label} if label else {"path": path}


def _end_of_path(line: str) -> int:
    """Return where the path of a line "path label" ends; 0 if there is none."""
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
