"""Pictures in files: PNG, JPEG and WebP, told by their content, as upright RGB."""

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
"""What pictures in a folder are known by."""
_FORMATS: Final = ("PNG", "JPEG", "WEBP")
_STREAMS: Final = frozenset([".mjpeg", ".mjpg"])
"""Of videos that are nothing but JPEGs in a row."""
_MOST_PIXELS: Final = 1 << 26
"""Of a picture, 8192x8192: 200 MB as RGB; a few bytes can pretend to be far more."""
_TURNED: Final = frozenset([5, 6, 7, 8])
"""Orientations of EXIF that swap height and width."""
_ORIENTATION: Final = 0x0112
_NO_PICTURE: Final = (
    *(OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, OverflowError),
    *(struct.error, zlib.error),
)
"""What Pillow was seen to raise of files that are damaged, or something else."""


@dataclass(frozen=True, kw_only=True)
class ImageFile:
    """A picture whose header was read."""

    path: Path
    name: str
    """Where its annotated copy lies below their folder, with slashes; no two have the same."""
    size: tuple[int, int]
    """(height, width), upright."""


def is_picture(path: Path) -> bool:
    """Return whether a file begins like a PNG, JPEG or WebP, whatever it is called."""
    if path.suffix.lower() in _STREAMS:
        return False
    try:
        with path.open("rb") as file:
            start = file.read(12)
    except OSError:
        return False  # whoever opens it says why
    return (
        start.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"))
        or start[:4] + start[8:] == b"RIFFWEBP"
    )


def upright_size(path: Path) -> tuple[int, int]:
    """Return (height, width) of a picture as it is shown; reads its header.

    Raises:
        OpenError: it cannot be read, is no PNG, JPEG or WebP, is animated, or too large.
    """
    # Pillow warns of large ones; they are refused, as here, so that no reader meets one.
    with catch_warnings(action="ignore"), _errors(path, OpenError), _opened(path) as image:
        width, height = image.size
        is_turned = image.getexif().get(_ORIENTATION) in _TURNED
    return (width, height) if is_turned else (height, width)


def read_picture(path: Path) -> NDArray[np.uint8]:
    """Return a picture, uint8 [H, W, 3] RGB, upright by its EXIF orientation.

    16 bits become 8; what is see-through lies on white; CMYK is converted without its profile.

    Raises:
        OpenError: as `upright_size`.
        DecodeError: it is damaged or cut off.
    """
    with _errors(path, DecodeError), _opened(path) as image:
        image.load()
        return np.array(_as_rgb(ImageOps.exif_transpose(image)))


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    with Image.open(path, formats=_FORMATS) as image:
        width, height = image.size
        if width * height > _MOST_PIXELS:
            raise _too_large(path)
        frames = getattr(image, "n_frames", 1)
        # In JPEGs of some cameras (MPO) the others are previews, or the same from another eye.
        if frames > 1 and image.format != "MPO":
            raise _refusal(path, f"it is an animation of {frames} pictures; convert it to a video")
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
    except _NO_PICTURE as error:
        if isinstance(error, OSError) and error.strerror:
            raise _refusal(path, f"{error.strerror.lower()}; give the path of a picture") from error
        if kind is OpenError:
            words = "it is no PNG, JPEG or WebP that can be read; copy or convert it again"
        else:
            words = "it is damaged or cut off; copy or convert it again"
        raise kind(f"cannot read the picture {path}: {words}", source=str(path)) from error


def _too_large(path: Path) -> OpenError:
    return _refusal(path, f"it has over {_MOST_PIXELS:,} pixels; make it smaller")


def _refusal(path: Path, words: str) -> OpenError:
    return OpenError(f"cannot read the picture {path}: {words}", source=str(path))


def find_pictures(path: Path) -> list[Path]:
    """Return the pictures below a folder, sorted; of a file that is one, itself.

    A picture begins like one, or has the suffix of one; hidden files are left out. The first bytes
    of every file are read.

    Raises:
        ConfigError: the folder cannot be read.
    """
    if not path.is_dir():
        return [path] if _passes_for_picture(path) else []
    with file_errors(f"cannot read the folder {path}", "give a folder of pictures"):
        inside = sorted(path.rglob("*"))
    return [
        each
        for each in inside
        if each.name[0] != "." and each.is_file() and _passes_for_picture(each)
    ]


def _passes_for_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES or is_picture(path)
