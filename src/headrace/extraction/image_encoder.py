"""Frames as picture files: the format, and its encoder."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from io import BytesIO
from typing import Annotated, Any, Final, Literal, get_args

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image, features

from headrace.config_fields import Option, check_options
from headrace.errors import BackendError, ConfigError
from headrace.profiling.provenance import Scalar

PictureFormat = Literal["png", "jpg", "webp", "avif"]
FORMATS: Final[tuple[PictureFormat, ...]] = get_args(PictureFormat)


@dataclass(frozen=True)
class _Facts:
    pillow: str
    """What Pillow calls it."""
    feature: str
    """What Pillow must be built with."""
    quality: int | None
    """Unless another is asked for; None: it loses nothing, so there is none."""
    largest: int
    """Pixels of a side, at most."""
    cost: float
    """Pixels that might be decoded while one is encoded. Coarse: only balance rests on it."""


_FACTS: Final[dict[PictureFormat, _Facts]] = {
    "png": _Facts("PNG", "zlib", None, 2**31 - 1, 40),
    "jpg": _Facts("JPEG", "jpg", 90, 65_500, 4),
    "webp": _Facts("WEBP", "webp", 80, 16_383, 40),
    "avif": _Facts("AVIF", "avif", 75, 65_536, 80),
}
_ALWAYS: Final = ("format", "quality", "prefix")
"""Options that each request has, also where they were not chosen."""
_PNG_LEVEL: Final = 4
"""Of zlib, 1 to 9. Pillow's own choice, 6, takes twice the time for files 6 % smaller."""


@dataclass(frozen=True, kw_only=True)
class ImageEncoder:
    """What pictures frames are made into. The same frame gives the same bytes, whoever encodes it.

    Raises:
        ConfigError: no such format, a quality out of range or of a format that has none, a size or
            prefix that cannot be.
    """

    prefix: Annotated[str, Option("Put before the name of each picture.")] = ""
    """Put before each name."""
    format: Annotated[PictureFormat, Option("Of the pictures.")] = "png"
    """png loses nothing and is large; jpg is quick; webp and avif are small and slow."""
    quality: Annotated[
        int | None,
        Option("1 to 100, not for png; without it jpg 90, webp 80, avif 75."),
    ] = None
    """1 to 100; None: 90 for jpg, 80 for webp, 75 for avif."""

    def __post_init__(self) -> None:
        check_options(self)
        facts = _FACTS[self.format]
        if self.quality is not None and facts.quality is None:
            raise ConfigError(
                f"{self.format} loses nothing, so it has no quality; leave it out, or choose "
                f"{', '.join(name for name in FORMATS if _FACTS[name].quality)}"
            )
        if self.quality is not None and not 1 <= self.quality <= 100:
            raise ConfigError(f"quality must be from 1 to 100, got {self.quality}")
        length = len(self.prefix.encode(errors="surrogateescape"))
        if "/" in self.prefix or not self.prefix.isprintable() or length > 60:
            raise ConfigError(
                f"a prefix is the beginning of a file name, up to 60 bytes without /, "
                f"got {self.prefix!r}"
            )

    def asked(self) -> dict[str, Scalar]:
        """Return it as options by name, for a request; later fields only where they were chosen."""
        found = {**asdict(self), "quality": self.quality_in_force}
        chosen = (f.name for f in fields(self) if f.name in _ALWAYS or found[f.name] != f.default)
        return {name: found[name] for name in chosen}

    @classmethod
    def of_asked(cls, asked: Mapping[str, Any]) -> "ImageEncoder":
        """Return what `asked` told, which may hold other options too."""
        return cls(**{f.name: asked[f.name] for f in fields(cls) if f.name in asked})

    @property
    def quality_in_force(self) -> int | None:
        """1 to 100; None where the format has none."""
        return _FACTS[self.format].quality if self.quality is None else self.quality

    def check(self) -> None:
        """Do nothing if this installation can write the format.

        Raises:
            BackendError: Pillow was built without it.
        """
        if not features.check(_FACTS[self.format].feature):
            raise BackendError(
                f"pictures as {self.format} were asked for, and this Pillow "
                f"{PIL.__version__} was built without it; install Pillow from PyPI "
                "(pip install --force-reinstall pillow), or choose --format png"
            )

    def check_size(self, size: tuple[int, int], source: str) -> None:
        """Do nothing if a frame of (height, width) `size` can be such a picture.

        Raises:
            ConfigError: it is too large.
        """
        largest = _FACTS[self.format].largest
        if max(size) > largest:
            raise ConfigError(
                f"frames of {source} would be {size[0]}x{size[1]} (height x width), and "
                f"{self.format} takes {largest} pixels a side; choose a smaller --size, or png"
            )

    def encode(self, frame: NDArray[np.uint8]) -> bytes:
        """Return the file of a frame, uint8 [H, W, 3] RGB.

        Raises:
            ConfigError: the format cannot hold it.
        """
        facts, file = _FACTS[self.format], BytesIO()
        options: dict[str, Any] = {}
        if self.quality_in_force is not None:
            options["quality"] = self.quality_in_force
        if self.format == "png":
            options["compress_level"] = _PNG_LEVEL
        if self.format == "avif":
            options["max_threads"] = 1  # the workers take the cores
        try:
            Image.fromarray(frame).save(file, facts.pillow, **options)
        except (OSError, ValueError) as error:
            size = f"{frame.shape[0]}x{frame.shape[1]} (height x width)"
            raise ConfigError(
                f"a frame of {size} cannot be made a picture of {self.format}: {error}; "
                "choose another --format or --size"
            ) from error
        return file.getvalue()

    def cost_of(self, size: tuple[int, int]) -> float:
        """Return what encoding a frame of (height, width) `size` costs, in pixels decoded."""
        return size[0] * size[1] * _FACTS[self.format].cost
