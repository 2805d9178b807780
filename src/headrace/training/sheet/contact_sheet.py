"""ContactSheet: pictures in a grid with captions, to look at in a notebook or to keep as a file."""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image

from headrace.errors import ConfigError
from headrace.text_file import write_bytes_whole
from headrace.training.sheet.cells import Strip
from headrace.training.sheet.drawing import drawn

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
