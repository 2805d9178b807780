"""Image files: PNG, JPEG and WebP, recognised by content, read as upright RGB."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from warnings import catch_warnings

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from headrace.errors import DecodeError, MediaError, OpenError, file_errors

SUFFIXES: Final = frozenset([".png", ".jpg", ".jpeg", ".webp"])
"""Suffixes of image files in a folder."""
_FORMATS: Final = ("PNG", "JPEG", "WEBP")
_STREAMS: Final = frozenset([".mjpeg", ".mjpg"])
"""Suffixes of videos that are concatenated JPEGs."""
_MAX_PIXELS: Final = 1 << 26
"""Largest image in pixels, 8192x8192, 200 MB as RGB; the header of a small file can claim far
more."""
_SWAPPED_ORIENTATIONS: Final = frozenset([5, 6, 7, 8])
"""EXIF orientations that swap height and width."""
_ORIENTATION: Final = 0x0112
_PILLOW_ERRORS: Final = (
    *(OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, OverflowError),
    *(MemoryError, struct.error, zlib.error),
)
"""Exceptions that Pillow raises for damaged or other files; MemoryError for a false length."""


@dataclass(frozen=True, kw_only=True)
class ImageFile:
    """An image whose header was read."""

    path: Path
    name: str
    """Relative path of its annotated copy, with slashes; unique among the images."""
    size: tuple[int, int]
    """(height, width), upright."""


def is_image(path: Path) -> bool:
    """Return whether a file starts like a PNG, JPEG or WebP, whatever its name."""
    if path.suffix.lower() in _STREAMS:
        return False
    try:
        with path.open("rb") as file:
            start = file.read(12)
    except OSError:
        return False  # opening the file raises the error
    return (
        start.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"))
        or start[:4] + start[8:] == b"RIFFWEBP"
    )


def upright_size(path: Path) -> tuple[int, int]:
    """Return (height, width) of an upright image; reads its header.

    Raises:
        OpenError: it cannot be read, is not a PNG, JPEG or WebP, is animated, or too large.
    """
    # Pillow warns of large images; `_open_image` refuses them.
    with catch_warnings(action="ignore"), _errors(path, OpenError), _open_image(path) as image:
        width, height = image.size
        is_rotated = image.getexif().get(_ORIENTATION) in _SWAPPED_ORIENTATIONS
    return (width, height) if is_rotated else (height, width)


def read_image(path: Path) -> NDArray[np.uint8]:
    """Return an image, uint8 [H, W, 3] RGB, upright by its EXIF orientation.

    16 bits become 8; transparency becomes white; CMYK is converted without its profile.

    Raises:
        OpenError: as `upright_size`.
        DecodeError: it is damaged or cut off.
    """
    with _errors(path, DecodeError), _open_image(path) as image:
        image.load()
        return np.array(_as_rgb(ImageOps.exif_transpose(image)))


@contextmanager
def _open_image(path: Path) -> Iterator[Image.Image]:
    with Image.open(path, formats=_FORMATS) as image:
        width, height = image.size
        if width * height > _MAX_PIXELS:
            raise _too_large(path)
        frames = getattr(image, "n_frames", 1)
        # In MPO, JPEGs of some cameras, further images are previews or another view.
        if frames > 1 and image.format != "MPO":
            raise _refusal(path, f"it is an animation of {frames} frames; convert it to a video")
        yield image


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # 16 bits of grey, by Pillow's names
        grey = np.clip(np.asarray(image, np.float64) / 257 + 0.5, 0, 255)
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        opaque = image.convert("RGBA")
        white = Image.new("RGBA", opaque.size, "white")
        return Image.alpha_composite(white, opaque).convert("RGB")
    return image.convert("RGB")


@contextmanager
def _errors(path: Path, kind: type[MediaError]) -> Iterator[None]:
    try:
        yield
    except MediaError:
        raise
    except Image.DecompressionBombError as error:
        raise _too_large(path) from error
    except _PILLOW_ERRORS as error:
        if isinstance(error, OSError) and error.strerror:
            raise _refusal(path, f"{error.strerror.lower()}; give the path of an image") from error
        if kind is OpenError:
            reason = "it is not a readable PNG, JPEG or WebP; copy or convert it again"
        else:
            reason = "it is damaged or cut off; copy or convert it again"
        raise kind(f"cannot read the image {path}: {reason}", source=str(path)) from error


def _too_large(path: Path) -> OpenError:
    return _refusal(path, f"it has over {_MAX_PIXELS:,} pixels; make it smaller")


def _refusal(path: Path, reason: str) -> OpenError:
    return OpenError(f"cannot read the image {path}: {reason}", source=str(path))


def find_images(path: Path) -> list[Path]:
    """Return the images below a folder, sorted; for an image file, the file itself.

    An image is recognised by its suffix or its content; hidden files are skipped. Reads the first
    bytes of every other file.

    Raises:
        ConfigError: the folder cannot be read.
    """
    if not path.is_dir():
        return [path] if _looks_like_image(path) else []
    with file_errors(f"cannot read the folder {path}", "give a folder of images"):
        entries = sorted(path.rglob("*"))
    return [
        entry
        for entry in entries
        if entry.name[0] != "." and entry.is_file() and _looks_like_image(entry)
    ]


def _looks_like_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES or is_image(path)
