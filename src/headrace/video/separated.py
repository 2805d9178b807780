"""Rows of separated values, with the line that each begins on."""

import csv
import io
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from headrace.errors import ConfigError
from headrace.video.columns import named_columns, unnamed_columns


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
