"""Table: the rows of a text file of videos, as they are written, and the line of each."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.errors import ConfigError, reason_of
from headrace.video.columns import PATH_COLUMNS, column_name
from headrace.video.separated import separated_rows
from headrace.video.suffixes import is_video_name

Row = dict[str, Any]

_LARGEST_BYTES: Final = 1 << 28


@dataclass(frozen=True, kw_only=True)
class Table:
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


def read_table(path: Path, what: str) -> Table:
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
    return Table(
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
