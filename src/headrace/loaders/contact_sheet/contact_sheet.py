"""ContactSheet: strips of images with captions, drawn as one image."""

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
"""Why an image is not an ordinary frame: it replaces one beyond the clip's end, repeats another
frame, is damaged, is missing, or its slot is empty."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """Image with its caption."""

    image: NDArray[np.uint8]
    """uint8 [h, w, 3], RGB, at the drawn size."""
    lines: tuple[str, ...]
    """Lines of the caption."""
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Strip:
    """Images side by side: frames in time, or samples next to each other."""

    cells: tuple[Cell, ...]
    """At least one."""
    heading: str = ""
    """Line above the images; empty for none."""


GAP: Final = 10
"""Pixels between images, and at the border."""
_LINE: Final = 15
"""Height of a line of text, in pixels."""
_FONT_SIZE: Final = 12
_BORDER: Final = 3
"""Width of the border of a marked image, in pixels."""
_MIN_WIDTH: Final = 480
"""Min width of a sheet, in pixels; leaves room for the title."""
_INK, _HEADING_INK, _PAPER = "#444444", "#000000", "#ffffff"
_COLORS: Final[dict[Mark, str]] = {
    "pad": "#1f6fd0",
    "repeated": "#c05a00",
    "concealed": "#c81e1e",
    "missing": "#c81e1e",
    "empty": "#767676",
}
_ELLIPSIS: Final = "…"
_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def strip_height(strip: Strip) -> int:
    """Return the height of a strip in pixels, including the gap above it."""
    heading = _LINE + _BORDER if strip.heading else 0
    cells = [len(cell.image) + _LINE * (len(cell.lines) + bool(cell.marks)) for cell in strip.cells]
    return GAP + heading + max(cells) + _BORDER


def _draw_sheet(title: Sequence[str], strips: Sequence[Strip]) -> Image.Image:
    """Draw the title, then the strips (one or more), from top to bottom, as an RGB image.

    Captions wider than their image are shortened in the middle. Marked images have a border and
    their marks as text.
    """
    font = ImageFont.load_default(size=_FONT_SIZE)
    column = max(cell.image.shape[1] for strip in strips for cell in strip.cells)
    width = max(_MIN_WIDTH, GAP + max(len(strip.cells) for strip in strips) * (column + GAP))
    title_lines = [line for text in title for line in _wrap(text, width - 2 * GAP, font)]
    height = 2 * GAP + _LINE * len(title_lines) + sum(map(strip_height, strips))
    sheet = Image.new("RGB", (width, height), _PAPER)
    canvas = ImageDraw.Draw(sheet)
    top = GAP
    for line in title_lines:
        canvas.text((GAP, top), line, fill=_HEADING_INK, font=font)
        top += _LINE
    for strip in strips:
        cell_top = top + GAP
        if strip.heading:
            heading = _shorten(strip.heading, width - 2 * GAP, font)
            canvas.text((GAP, cell_top), heading, fill=_HEADING_INK, font=font)
            cell_top += _LINE + _BORDER
        for number, cell in enumerate(strip.cells):
            corner = (GAP + number * (column + GAP), cell_top)
            _draw_cell(cell, sheet, canvas, corner, column, font)
        top += strip_height(strip)
    return sheet


def _draw_cell(
    cell: Cell,
    sheet: Image.Image,
    canvas: ImageDraw.ImageDraw,
    corner: tuple[int, int],
    column: int,
    font: _Font,
) -> None:
    left, top = corner
    height, width = cell.image.shape[:2]
    for mark in cell.marks[:1]:
        box = (left - _BORDER, top - _BORDER, left + width + _BORDER - 1, top + height + 2)
        canvas.rectangle(box, outline=_COLORS[mark], width=_BORDER)
    sheet.paste(Image.fromarray(cell.image), corner)
    top += height + _BORDER
    for line in cell.lines:
        canvas.text((left, top), _shorten(line, column, font), fill=_INK, font=font)
        top += _LINE
    if cell.marks:
        text = _shorten(", ".join(cell.marks), column, font)
        canvas.text((left, top), text, fill=_COLORS[cell.marks[0]], font=font)


def _shorten(text: str, width: float, font: _Font) -> str:
    """Return one line of at most `width` pixels, with an ellipsis in the middle if needed."""
    text = " ".join(text.encode("utf-8", "replace").decode().split())[:400]
    if font.getlength(text) <= width:
        return text
    count = len(text) - 1
    while count > 0 and font.getlength(_cut_middle(text, count)) > width:
        count -= 1
    return _cut_middle(text, count)


def _cut_middle(text: str, count: int) -> str:
    return text[: count // 2] + _ELLIPSIS + text[len(text) - (count - count // 2) :]


def _wrap(text: str, width: float, font: _Font) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(_shorten(word, width, font))
    return lines


_FORMATS: Final = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ContactSheet:
    """Result of `batch.show()`: a notebook displays it, `save` writes it."""

    title: tuple[str, ...]
    """Lines about the shown samples, and about the range of values."""
    strips: tuple[Strip, ...]
    """From top to bottom."""

    @property
    def image(self) -> Image.Image:
        """The sheet as an RGB image, drawn on each access, in about 10 ms."""
        return _draw_sheet(self.title, self.strips)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the image, completely or not at all; PNG keeps every pixel.

        Raises:
            ConfigError: the path does not end in .png, .jpg, .jpeg or .webp, or cannot be written.
        """
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise ConfigError(f"path must be a path, such as 'batch.png', got {path!r}")
        kind = _FORMATS.get(Path(path).suffix.lower())
        if kind is None:
            raise ConfigError(f"path must end in {', '.join(_FORMATS)}, got {os.fspath(path)!r}")
        write_bytes_whole(Path(path), self._encode(kind))

    def __repr__(self) -> str:
        shown = sum(len(strip.cells) for strip in self.strips)
        return f"ContactSheet({shown} images: {'; '.join(self.title)})"

    def _repr_png_(self) -> bytes:
        """Return the image for a notebook."""
        return self._encode("PNG")

    def _encode(self, kind: str) -> bytes:
        file = io.BytesIO()
        self.image.save(file, kind)
        return file.getvalue()
