"""Finding videos: files, folders, and lists of videos with their rows."""

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
from headrace.video.image_sequence import is_pattern
from headrace.video.source import check_is_list, refuse_address

_LISTS = (".txt", ".csv", ".tsv", ".jsonl")
OUTPUT_HOME: Final = ".extraction"
"""Name of a folder that marks its parent as output of an extraction, such as proxies."""


def find_videos(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the videos of files, folders and lists.

    In a folder, videos are found by suffix, also in sub-folders, sorted by path; hidden files and
    folders of proxies are skipped. A list is a `.txt` file with a path per line, with or without a
    label after it, and comments in lines that start with #, or a `.csv`, `.tsv` or `.jsonl` file
    with a column path, video, file or filename; in a `.csv` without column names, the first column
    has the paths. Paths in a list are relative to its folder.

    Raises:
        ConfigError: `paths` is one path, a folder or list holds no video, a list cannot be read, or
            a path is a URL.
    """
    check_is_list(paths, "put it in a list")
    videos: list[Path] = []
    for name in paths:
        refuse_address(name)
        path = Path(name)
        if path.is_dir():
            videos += _videos_in_folder(path)
        elif path.suffix.lower() in _LISTS:
            videos += _videos_in_list(path)
        elif is_pattern(path):
            raise ConfigError(
                f"{path} is not a file; to read a pattern of images, give their rate "
                "(ImageSequence, or --framerate)"
            )
        else:
            videos.append(path)
    return videos


def _videos_in_folder(folder: Path) -> list[Path]:
    # Hidden files are skipped, such as the ._ files that macOS writes to other disks.
    videos = sorted(
        path
        for path in _files(folder)
        if path.suffix.lower() in VIDEO_SUFFIXES and path.name[0] != "."
    )
    if not videos:
        raise ConfigError(
            f"the folder {folder} has no file with a video suffix "
            f"({' '.join(sorted(VIDEO_SUFFIXES))}); give the files themselves, or for images a "
            "rate (ImageSequence, or --framerate)"
        )
    return videos


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder, without nested output folders.

    Proxies next to their originals are not further videos.
    """
    for parent, folders, names in os.walk(folder):
        if OUTPUT_HOME in folders and Path(parent) != folder:
            folders.clear()
            continue
        yield from (Path(parent, name) for name in names)


def _videos_in_list(path: Path) -> list[Path]:
    table = read_table(path, "list of videos")
    column = path_column(table.heads, str(path)) if table.heads else ""
    if not table.rows:
        raise ConfigError(f"{path} lists no video")
    return [
        path.parent / path_of(row.get(column), table.where(number))
        for number, row in enumerate(table.rows)
    ]


PATH_COLUMNS: Final = ("path", "video", "file", "filename")
"""Names of the column of paths."""
_KNOWN_COLUMNS: Final = frozenset(
    [*PATH_COLUMNS, "label", "class", "start_seconds", "end_seconds", "stream", "weight", "group"]
)
_DEFAULT_COLUMNS: Final = ("path", "label", "start_seconds", "end_seconds")
"""Columns of a file without a header."""


def column_name(header: str) -> str:
    """Return the name of a column, in lower case if it is a known one."""
    name = header.strip().lower()
    return name if name in _KNOWN_COLUMNS else header.strip()


def named_columns(headers: Iterable[str], where: str) -> list[str]:
    """Return the column names of a file.

    Raises:
        ConfigError: two columns have the same name.
    """
    names = [column_name(header) for header in headers]
    (name, count), *_ = [*Counter(names).most_common(1), ("", 0)]
    if count > 1:
        raise ConfigError(f"{where} has two columns {name!r}; rename one of them")
    return names


def path_column(headers: Iterable[str], where: str) -> str:
    """Return the name of the column of paths.

    Raises:
        ConfigError: there is no column of paths, or more than one.
    """
    names = list(headers)
    matches = [name for name in names if name in PATH_COLUMNS]
    if len(matches) != 1:
        has_other_delimiter = len(names) == 1 and any(mark in names[0] for mark in ";\t|")
        hint = "; separate its values by commas" if has_other_delimiter else ""
        raise ConfigError(
            f"{where} must have one column of paths, called {', '.join(PATH_COLUMNS[:-1])} or "
            f"{PATH_COLUMNS[-1]}; it has {', '.join(names)[:100] or 'no column'}{hint}"
        )
    return matches[0]


def path_of(value: object, where: str) -> str:
    """Return the path of a row.

    Raises:
        ConfigError: it is not a path; `where` is the row in the message.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ConfigError(f"{where} must have the path of a video, got {value!r}")
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
    """Return the column names, and (line number, values) of each row, with lines from 1.

    A missing value is None. The first line has column names, or is a row if its first value is a
    video path.

    Args:
        path: The file, for messages.
        text: Content of the file.
        delimiter: Delimiter of values.

    Raises:
        ConfigError: a quote is not closed, a row has too many values, or two columns have one name.
    """
    records = _records(path, text, delimiter)
    line, first = next(records, (0, []))
    rows: list[tuple[int, dict[str, str | None]]] = []
    if first and is_video_name(first[0].strip()):
        more = (f"column {k}" for k in range(len(_DEFAULT_COLUMNS), len(first)))
        headers = [*_DEFAULT_COLUMNS[: len(first)], *more]
        rows.append((line, dict(zip_longest(headers, first))))
    else:
        headers = named_columns(first, str(path))
    for line, values in records:
        if len(values) > len(headers):
            raise ConfigError(
                f"line {line} of {path} has more values than the first line has columns; quote a "
                'value with a comma, as in "cats, dogs"'
            )
        rows.append((line, dict(zip_longest(headers, values))))
    return headers, rows


def _records(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    # Strict: an unclosed quote would otherwise swallow all later lines.
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True
    )
    while True:
        line = reader.line_num + 1
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise ConfigError(f"line {line} of {path} is not CSV: {error}") from error
        if values is None:
            return
        if any(value.strip() for value in values):
            yield line, values


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
    start_seconds, end_seconds, "column 4", "column 5" and so on. A .txt, or a CSV with a first line
    of that form, has lines "path label", with an optional label; a path may contain spaces if it
    ends in a video suffix. A .txt whose first line is a CSV header is a CSV. Empty lines are
    skipped, in a .txt also lines that start with #. Known column names may be in capitals, and a
    byte order mark is accepted.

    Args:
        path: A UTF-8 text file of at most 256 MiB; it is read completely.
        what: Kind of file in messages, such as "manifest".

    Raises:
        ConfigError: the file cannot be read, or a line has the wrong form.
    """
    text, kind = _text(path, what), path.suffix.lower()
    if kind == ".txt":
        text = re.sub(r"(?m)^[ \t]*#.*$", "", text)
    if kind == ".jsonl" or _is_labelled_rows(text, kind):
        rows = list(_json_lines(path, text) if kind == ".jsonl" else _labelled_rows(text))
        headers = list(dict.fromkeys(header for _, row in rows for header in row))
    else:
        delimiter = "\t" if kind == ".tsv" else ","
        headers, rows = separated_rows(path, text, delimiter=delimiter)
    return VideoTable(
        name=str(path),
        heads=tuple(headers),
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
        raise ConfigError(f"the {what} {path} is not UTF-8 text; save it as UTF-8") from error
    if "\0" in text:
        raise ConfigError(f"the {what} {path} contains a null character; is it a text file?")
    return text


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # Not str.splitlines, which also splits at characters that JSON may contain.
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), 1):
        if line.strip():
            yield number, line.strip()


def _is_labelled_rows(text: str, kind: str) -> bool:
    """Return whether lines are "path label", by the first line."""
    first = next(_lines(text), (0, ""))[1]
    values = [value.strip().strip('"') for value in first.split(",")]
    if kind == ".tsv":
        return False
    if is_video_name(values[0]):
        return kind == ".txt" and (len(values) == 1 or is_video_name(first))
    if _end_of_path(first):
        return True
    is_header = len(values) > 1 and any(column_name(value) in PATH_COLUMNS for value in values)
    return kind == ".txt" and not is_header


def _labelled_rows(text: str) -> Iterator[tuple[int, Row]]:
    for number, line in _lines(text):
        end = 0 if is_video_name(line) else _end_of_path(line)
        path, label = (line[:end], line[end:].strip()) if end else (line, "")
        yield number, {"path": path, "label": label} if label else {"path": path}


def _end_of_path(line: str) -> int:
    """Return the end of the path in a line "path label"; 0 if there is no path."""
    ends = (match.start() for match in re.finditer(r"\s+", line))
    return next((end for end in ends if is_video_name(line[:end])), 0)


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, Row]]:
    for number, line in _lines(text):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"line {number} of {path} is not JSON: {line[:60]!r}") from error
        if isinstance(row, str):
            row = {"path": row}
        if not isinstance(row, dict):
            raise ConfigError(
                f"line {number} of {path} is not a JSON object, such as "
                f'{{"path": "a.mp4", "label": "cats"}}: {line[:60]!r}'
            )
        yield number, {column_name(header): row[header] for header in row}
