"""Encoder of frames as image files."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from io import BytesIO
from typing import Annotated, Any, Final, Literal, get_args

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image, features

from headrace.config_fields import Option, check_options
from headrace.errors import BackendError, ConfigError
from headrace.profiling.provenance import Scalar

ImageFormat = Literal["png", "jpg", "webp", "avif"]
FORMATS: Final[tuple[ImageFormat, ...]] = get_args(ImageFormat)


@dataclass(frozen=True)
class _FormatInfo:
    pillow: str
    """Pillow's name of the format."""
    feature: str
    """Pillow feature that the format needs."""
    quality: int | None
    """Default quality; None: the format is lossless."""
    largest: int
    """Maximum pixels of a side."""
    cost: float
    """Encoding time of a pixel ÷ its decoding time. Approximate: used only to balance chunks."""


_FORMAT_INFO: Final[dict[ImageFormat, _FormatInfo]] = {
    "png": _FormatInfo("PNG", "zlib", None, 2**31 - 1, 40),
    "jpg": _FormatInfo("JPEG", "jpg", 90, 65_500, 4),
    "webp": _FormatInfo("WEBP", "webp", 80, 16_383, 40),
    "avif": _FormatInfo("AVIF", "avif", 75, 65_536, 80),
}
_ALWAYS: Final = ("format", "quality", "prefix")
"""Options in every request, even at their defaults."""
_DIGITS: Final = 6
"""Min digits of a frame index in a file name."""
_PNG_LEVEL: Final = 4
"""Compression level of zlib, 1 to 9. Pillow's default, 6, takes twice as long; files are 6 %
smaller."""


@dataclass(frozen=True, kw_only=True)
class ImageEncoder:
    """Format of the image files. Equal frames give equal bytes.

    Raises:
        ConfigError: the format is unknown, the quality is out of range or not supported by the
            format, or the prefix is not valid in a file name.
    """

    prefix: Annotated[str, Option("Prefix of each file name.")] = ""
    """Prefix of each file name."""
    format: Annotated[ImageFormat, Option("Format of the images.")] = "png"
    """png is lossless and large; jpg is fast; webp and avif are small and slow."""
    quality: Annotated[
        int | None,
        Option("Quality, 1 to 100, except for png; default: jpg 90, webp 80, avif 75."),
    ] = None
    """1 to 100; None: 90 for jpg, 80 for webp, 75 for avif."""

    def __post_init__(self) -> None:
        check_options(self)
        facts = _FORMAT_INFO[self.format]
        if self.quality is not None and facts.quality is None:
            raise ConfigError(
                f"{self.format} is lossless, so quality must not be given; leave it out, or choose "
                f"{', '.join(name for name in FORMATS if _FORMAT_INFO[name].quality)}"
            )
        if self.quality is not None and not 1 <= self.quality <= 100:
            raise ConfigError(f"quality must be from 1 to 100, got {self.quality}")
        length = len(self.prefix.encode(errors="surrogateescape"))
        if "/" in self.prefix or not self.prefix.isprintable() or length > 60:
            raise ConfigError(
                f"prefix must be printable, without / and at most 60 bytes, got {self.prefix!r}"
            )

    def asked(self) -> dict[str, Scalar]:
        """Return the options by name, for a request; newer options only if not at their default."""
        values = {**asdict(self), "quality": self.quality_in_force}
        names = (f.name for f in fields(self) if f.name in _ALWAYS or values[f.name] != f.default)
        return {name: values[name] for name in names}

    @classmethod
    def of_asked(cls, asked: Mapping[str, Any]) -> "ImageEncoder":
        """Return the encoder from the entries of `asked`; other entries are ignored."""
        return cls(**{f.name: asked[f.name] for f in fields(cls) if f.name in asked})

    @property
    def quality_in_force(self) -> int | None:
        """1 to 100; None for a lossless format."""
        return _FORMAT_INFO[self.format].quality if self.quality is None else self.quality

    def check(self) -> None:
        """Check that Pillow can write the format.

        Raises:
            BackendError: Pillow was built without the format.
        """
        if not features.check(_FORMAT_INFO[self.format].feature):
            raise BackendError(
                f"this Pillow {PIL.__version__} was built without {self.format}; install Pillow "
                "from PyPI (pip install --force-reinstall pillow), or choose --format png"
            )

    def check_size(self, size: tuple[int, int], source: str) -> None:
        """Check that the format supports frames of (height, width) `size`.

        Raises:
            ConfigError: a side is too long.
        """
        largest = _FORMAT_INFO[self.format].largest
        if max(size) > largest:
            raise ConfigError(
                f"frames of {source} would be {size[0]}x{size[1]} (height x width), but "
                f"{self.format} allows {largest} pixels per side; choose a smaller --size, or png"
            )

    def encode(self, frame: NDArray[np.uint8]) -> bytes:
        """Return the content of the image file of a frame, uint8 [H, W, 3] RGB.

        Raises:
            ConfigError: the format cannot hold the frame.
        """
        facts, file = _FORMAT_INFO[self.format], BytesIO()
        options: dict[str, Any] = {}
        if self.quality_in_force is not None:
            options["quality"] = self.quality_in_force
        if self.format == "png":
            options["compress_level"] = _PNG_LEVEL
        if self.format == "avif":
            options["max_threads"] = 1  # each worker has one core
        try:
            Image.fromarray(frame).save(file, facts.pillow, **options)
        except (OSError, ValueError) as error:
            size = f"{frame.shape[0]}x{frame.shape[1]} (height x width)"
            raise ConfigError(
                f"cannot encode a frame of {size} as {self.format}: {error}; choose another "
                "--format or --size"
            ) from error
        return file.getvalue()

    def cost_of(self, size: tuple[int, int]) -> float:
        """Return the cost of encoding a frame of (height, width) `size`, in decoded pixels."""
        return size[0] * size[1] * _FORMAT_INFO[self.format].cost


def image_name(
    pictures: ImageEncoder, video: str, index: int, seconds: Fraction, num_frames: int
) -> str:
    """Return `shot_street_000120_4.004s.png`; names sort in presentation order.

    Args:
        pictures: Prefix and format.
        video: Name of the video.
        index: Index of the frame.
        seconds: Presentation time.
        num_frames: Frames of the video.
    """
    digits = max(_DIGITS, len(str(num_frames - 1)))
    number = f"{index:0{digits}d}"
    return f"{pictures.prefix}{video}_{number}_{float(seconds):.3f}s.{pictures.format}"
