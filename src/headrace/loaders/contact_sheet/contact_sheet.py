"""Draws strips of pictures with their captions."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from headrace.atomic_file import write_bytes_whole
from headrace.errors import ConfigError

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


GAP: Final = 10
LINE: Final = 15
_LETTER: Final = 12
_BORDER: Final = 3
_NARROWEST: Final = 480
"""Pixels that a title has at least."""
_INK, _HEADING_INK, _PAPER = "#444444", "#000000", "#ffffff"
_COLOURS: Final[dict[Mark, str]] = {
    "pad": "#1f6fd0",
    "repeated": "#c05a00",
    "concealed": "#c81e1e",
    "missing": "#c81e1e",
    "empty": "#767676",
}
_MORE: Final = "…"


def drawn(title: Sequence[str], strips: Sequence[Strip]) -> Image.Image:
    """Return an RGB picture: the lines of a title, then strips, at least one, under each other.

    Captions are shortened in the middle where they are longer than their picture; marked pictures
    have a border and the words of their marks.
    """
    font = ImageFont.load_default(size=_LETTER)
    column = max(cell.picture.shape[1] for strip in strips for cell in strip.cells)
    width = max(_NARROWEST, GAP + max(len(strip.cells) for strip in strips) * (column + GAP))
    head = [line for text in title for line in _wrapped(text, width - 2 * GAP, font)]
    height = 2 * GAP + LINE * len(head) + sum(map(strip_height, strips))
    whole = Image.new("RGB", (width, height), _PAPER)
    canvas = ImageDraw.Draw(whole)
    top = GAP
    for line in head:
        canvas.text((GAP, top), line, fill=_HEADING_INK, font=font)
        top += LINE
    for strip in strips:
        below = top + GAP
        if strip.heading:
            heading = _shortened(strip.heading, width - 2 * GAP, font)
            canvas.text((GAP, below), heading, fill=_HEADING_INK, font=font)
            below += LINE + _BORDER
        for place, cell in enumerate(strip.cells):
            _draw(cell, whole, canvas, (GAP + place * (column + GAP), below), column, font)
        top += strip_height(strip)
    return whole


def strip_height(strip: Strip) -> int:
    """Return how many pixels a strip takes, with the gap above it."""
    heading = LINE + _BORDER if strip.heading else 0
    cells = [
        len(cell.picture) + LINE * (len(cell.lines) + bool(cell.marks)) for cell in strip.cells
    ]
    return GAP + heading + max(cells) + _BORDER


def _draw(
    cell: Cell,
    whole: Image.Image,
    canvas: ImageDraw.ImageDraw,
    corner: tuple[int, int],
    width: int,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    left, top = corner
    height, across = cell.picture.shape[:2]
    for mark in cell.marks[:1]:
        box = (left - _BORDER, top - _BORDER, left + across + _BORDER - 1, top + height + 2)
        canvas.rectangle(box, outline=_COLOURS[mark], width=_BORDER)
    whole.paste(Image.fromarray(cell.picture), corner)
    below = top + height + _BORDER
    for line in cell.lines:
        canvas.text((left, below), _shortened(line, width, font), fill=_INK, font=font)
        below += LINE
    if cell.marks:
        words = _shortened(", ".join(cell.marks), width, font)
        canvas.text((left, below), words, fill=_COLOURS[cell.marks[0]], font=font)


def _shortened(text: str, room: float, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> str:
    """Return a text in one line of `room` pixels: its beginning and its end, if not all of it."""
    text = " ".join(text.encode("utf-8", "replace").decode().split())[:400]
    if font.getlength(text) <= room:
        return text
    kept = len(text) - 1
    while kept > 0 and font.getlength(_ends(text, kept)) > room:
        kept -= 1
    return _ends(text, kept)


def _ends(text: str, kept: int) -> str:
    return text[: kept // 2] + _MORE + text[len(text) - (kept - kept // 2) :]


def _wrapped(
    text: str, room: float, font: ImageFont.FreeTypeFont | ImageFont.ImageFont
) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(_shortened(word, room, font))
    return lines


_FORMATS: Final = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ContactSheet:
    """What `batch.show()` returns: a notebook shows it, `save` writes it, `image` is it."""

    title: tuple[str, ...]
    """What is shown, what was left out, and how values became colours; a line each."""
    strips: tuple[Strip, ...]
    """From top to bottom."""

    @property
    def image(self) -> Image.Image:
        """The picture, RGB, drawn anew each time it is asked for: some 10 ms."""
        return drawn(self.title, self.strips)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture, whole or not at all; PNG keeps every pixel.

        Raises:
            ConfigError: the path does not end in .png, .jpg, .jpeg or .webp, or cannot be written.
        """
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise ConfigError(f"a contact sheet is saved to a path, got {path!r}")
        kind = _FORMATS.get(Path(path).suffix.lower())
        if kind is None:
            raise ConfigError(
                f"a contact sheet is saved as {', '.join(_FORMATS)}, got {os.fspath(path)!r}; "
                'give a name such as "batch.png"'
            )
        write_bytes_whole(Path(path), self._encoded(kind))

    def __repr__(self) -> str:
        shown = sum(len(strip.cells) for strip in self.strips)
        return f"ContactSheet({shown} pictures: {'; '.join(self.title)})"

    def _repr_png_(self) -> bytes:
        """Return what a notebook shows."""
        return self._encoded("PNG")

    def _encoded(self, kind: str) -> bytes:
        file = io.BytesIO()
        self.image.save(file, kind)
        return file.getvalue()
