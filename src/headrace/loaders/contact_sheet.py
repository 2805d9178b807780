"""ContactSheet: images with captions, scaled to uint8 and drawn as one picture."""

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch.nn.functional import interpolate

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


WIDTH: Final = 1280
"""Max width of a sheet, in pixels."""
HEIGHT: Final = 4096
"""Max height of its strips, in pixels."""
_MAX_SIDE: Final = 320
"""Max pixels of an image's longer side."""
_ROUNDING: Final = 1e-3
"""Rounding error by which resized floats may exceed [0, 1] or [0, 255]."""
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


def _strip_height(strip: Strip) -> int:
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
    height = 2 * GAP + _LINE * len(title_lines) + sum(map(_strip_height, strips))
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
        top += _strip_height(strip)
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


Position = tuple[int, ...]
"""Index of an image in a batch: (sample,), (sample, step), (slot, camera) or (window, step,
camera)."""
Caption = tuple[Sequence[str], Sequence[Mark]]
"""Lines below an image, and its marks."""


def build_sheet(
    rows: Sequence[tuple[str, Sequence[Position]]],
    image_at: Callable[[Position], torch.Tensor],
    caption_at: Callable[[Position], Caption],
    summarise: Callable[[Sequence[Strip]], str],
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> ContactSheet:
    """Return a sheet with as many rows as fit its height.

    Args:
        rows: Heading and positions of each strip; at least one.
        image_at: Returns the image at a position, [C, H, W] with C 1 or 3.
        caption_at: Returns the caption at a position.
        summarise: Returns the first line of the title, from the strips that fit.
        mean: Mean of each channel that was subtracted from images in [0, 1]; None: not normalized.
        std: Standard deviation of each channel that they were divided by.

    Raises:
        ConfigError: only one of mean and std is given, or one has neither 1 nor C numbers.
    """
    side = min(_MAX_SIDE, (WIDTH - GAP) // max(len(positions) for _, positions in rows) - GAP)
    first = image_at(rows[0][1][0])
    rows = rows[: max(1, HEIGHT // (_size_in(side, first)[0] + GAP))]
    images = [[_shrink(side, image_at(position)) for position in row] for _, row in rows]
    shown = [image for row in images for image in row]
    low, high, note = _find_levels(shown, first.dtype, mean, std)
    strips = []
    for (heading, positions), row in zip(rows, images, strict=True):
        cells = []
        for position, image in zip(positions, row, strict=True):
            lines, marks = caption_at(position)
            cells.append(
                Cell(
                    image=_to_uint8(side, (image - low) / (high - low) * 255),
                    lines=tuple(filter(None, lines)),
                    marks=tuple(marks),
                )
            )
        strips.append(Strip(heading=heading, cells=tuple(cells)))
    ends = accumulate(map(_strip_height, strips))
    fitting = tuple(strip for strip, end in zip(strips, ends, strict=True) if end <= HEIGHT)
    return ContactSheet(title=(summarise(fitting), *filter(None, [note])), strips=fitting)


def _size_in(side: int, image: torch.Tensor) -> tuple[int, int]:
    """Return the (height, width) at which an image [C, H, W] is shown in a square of `side`."""
    height, width = image.shape[-2:]
    longer = max(height, width)
    if longer <= side:
        return height * (side // longer), width * (side // longer)
    return max(1, height * side // longer), max(1, width * side // longer)


def _shrink(side: int, image: torch.Tensor) -> torch.Tensor:
    """Return an image [C, H, W] as float32 on the CPU, with sides of at most `side` pixels.

    A larger image is averaged down on its device; a smaller one keeps its size.
    """
    values, size = image.float(), _size_in(side, image)
    if size[0] < values.shape[-2] or size[1] < values.shape[-1]:
        values = interpolate(values[None], size, mode="area")[0]
    return values.cpu()


def _to_uint8(side: int, values: torch.Tensor) -> NDArray[np.uint8]:
    """Return values in [0, 255], [C, h, w] with C 1 or 3, as uint8 [h, w, 3].

    Small images are enlarged by an integer factor, by repeating pixels. NaN becomes black, and
    infinity black or white.
    """
    levels = values.nan_to_num(0.0, 255.0, 0.0).clamp(0, 255).round().to(torch.uint8)
    factor = max(1, _size_in(side, values)[0] // values.shape[-2])
    array = levels.expand(3, -1, -1).permute(1, 2, 0).numpy()
    return np.ascontiguousarray(array.repeat(factor, 0).repeat(factor, 1))


def _find_levels(
    images: Sequence[torch.Tensor],
    dtype: torch.dtype,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> tuple[torch.Tensor | float, torch.Tensor | float, str]:
    """Return the values of black and white, per channel or for all, and a note for the title.

    They undo a normalization, or fit the range of the values. `dtype` is the images' before
    `_shrink`.
    """
    if (mean is None) != (std is None):
        raise ConfigError("mean and std undo a normalization together; give both or neither")
    if mean is not None and std is not None:
        center, scale = (_per_channel(values, len(images[0])) for values in (mean, std))
        if not bool((scale > 0).all()):
            raise ConfigError(f"std must be above 0, got {std}")
        return -center / scale, (1 - center) / scale, "mean and std undone"
    if dtype in (torch.uint8, torch.uint16):
        return 0.0, 255.0 if dtype == torch.uint8 else 65535.0, ""
    values = torch.cat([image.flatten() for image in images])
    is_finite = values.isfinite()
    low, high = map(float, values[is_finite].aminmax()) if is_finite.any() else (0.0, 1.0)
    note = "" if is_finite.all() else "values that are not finite are black or white; "
    if low >= -_ROUNDING and high <= 255 + _ROUNDING:
        return 0.0, 1.0 if high <= 1 + _ROUNDING else 255.0, note.removesuffix("; ")
    note += f"values from {low:.2f} (black) to {high:.2f} (white); give mean and std for colors"
    return low, max(high, low + _ROUNDING), note


def _per_channel(values: Sequence[float], channels: int) -> torch.Tensor:
    try:
        tensor = torch.as_tensor(values, dtype=torch.float32).reshape(-1)
        is_finite = bool(tensor.isfinite().all())
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"mean and std must be numbers, got {values!r}") from error
    if not is_finite:
        raise ConfigError(f"mean and std must be numbers, got {values!r}")
    if len(tensor) not in (1, channels):
        raise ConfigError(f"mean and std must have {channels} numbers or one, got {len(tensor)}")
    return tensor.reshape(-1, 1, 1)
