"""What stands on a contact sheet, as values: pictures with captions and marks, in strips."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Mark = Literal["pad", "repeated", "concealed", "missing", "empty"]
"""What a reader must not take a picture for: a frame of its own, a sample that counts, a whole one,
one that was there, one of a clip at all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """One picture."""

    picture: NDArray[np.uint8]
    """uint8 [h, w, 3], RGB, as large as it is drawn."""
    lines: tuple[str, ...]
    """Below it, one line each."""
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Strip:
    """Pictures side by side: frames in time, or samples next to each other."""

    cells: tuple[Cell, ...]
    """At least one."""
    heading: str = ""
    """Above them, for all; empty: there is none."""
