"""Input of a model: frames or clips, their size and normalisation."""

from dataclasses import dataclass
from typing import Literal

from headrace.errors import ConfigError
from headrace.units import check_integers

PrepLevel = Literal["simple", "medium", "complex"]
"""Amount of preprocessing: see `build_preprocess`."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """Input that a model was trained on.

    `resize` and `crop` are both None for models that resize inside, as detectors do. Their boxes
    are in pixels of the input frame.
    """

    resize: int | tuple[int, int] | None
    """Length of the short side after resizing in pixels, or (height, width)."""
    crop: int | None
    """Side of the square centre crop, in pixels: height and width of the input."""
    mean: tuple[float, ...]
    """Subtracted mean of each channel, RGB in [0, 1]."""
    std: tuple[float, ...]
    """Standard deviation of each channel, as divisor."""
    interpolation: str
    """`bilinear` or `bicubic`."""
    antialias: bool = True
    """Whether downscaling is antialiased; for torchvision's video weights it is not."""
    num_frames: int | None = None
    """Frames per clip when the weights were evaluated; None: single frames."""

    def __post_init__(self) -> None:
        if (self.resize is None) != (self.crop is None):
            raise ConfigError(
                f"resize is {self.resize} and crop is {self.crop}; give both, or None for both"
            )
        check_integers(1, num_frames=self.num_frames)

    @property
    def layout(self) -> str:
        """Names of the dimensions of a batch, in order."""
        return "N C H W" if self.num_frames is None else "N C T H W"

    def shape(self, batch_size: int, frame_size: tuple[int, int]) -> tuple[int, ...]:
        """Return the shape of a batch.

        Args:
            batch_size: Frames or clips.
            frame_size: (height, width) of decoded frames, used for models without an input size.
        """
        size = frame_size if self.crop is None else (self.crop, self.crop)
        time = () if self.num_frames is None else (self.num_frames,)
        return (batch_size, 3, *time, *size)
