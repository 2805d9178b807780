"""RowPlaces: where the rows of a manifest were written, for messages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class RowPlaces:
    """Where each row was written: also a part of a manifest knows the lines of the whole file."""

    name: str
    """Of the file, or what else to call the manifest."""
    unit: Literal["line", "row"]
    """What `number` counts: lines of a file from 1, or rows from 0."""
    number: NDArray[np.int64]
    """int64 [rows]."""

    @classmethod
    def of_rows(cls, count: int, name: str) -> "RowPlaces":
        """Return those of rows that lie in no text file."""
        return cls(name=name, unit="row", number=np.arange(count))

    @classmethod
    def of_lines(cls, lines: Sequence[int], name: str) -> "RowPlaces":
        """Return those of rows that begin on some lines of a file."""
        return cls(name=name, unit="line", number=np.array(lines, np.int64))

    def where(self, row: int) -> str:
        """Return what to call a row: `line 7 of labels.csv`, `row 2 of the manifest`."""
        return f"{self.unit} {self.number[row]} of {self.name}"

    def chosen(self, rows: NDArray[np.int64]) -> "RowPlaces":
        """Return those of some rows."""
        return replace(self, number=self.number[rows])
