"""What a model was trained to see: single pictures or clips, their size and their colours."""

from dataclasses import dataclass
from typing import Literal

from headrace.errors import ConfigError
from headrace.units import check_integers

PrepLevel = Literal["simple", "medium", "complex"]
"""How much is done to a picture before the model sees it: see `build_preprocess`."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """What a model was trained to see.

    `resize` and `crop` are both None for a model that brings pictures to its own size itself, as
    detectors do, which tell places in the picture they are given.
    """

    resize: int | tuple[int, int] | None
    """Length of the short side after resizing, pixels; or (height, width)."""
    crop: int | None
    """Side of the square cut from the centre, pixels; the input's height and width."""
    mean: tuple[float, ...]
    """Of each channel (RGB, 0 to 1), subtracted."""
    std: tuple[float, ...]
    """Of each channel, divided by."""
    interpolation: str
    """`bilinear` or `bicubic`."""
    antialias: bool = True
    """Whether what is made smaller is smoothed first; torchvision's video weights were evaluated
    without."""
    num_frames: int | None = None
    """Frames of the clips its weights were evaluated with; None: it takes single pictures."""

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

    def shape(self, batch_size: int, picture_size: tuple[int, int]) -> tuple[int, ...]:
        """Return the shape of a batch.

        Args:
            batch_size: Pictures or clips in it.
            picture_size: (height, width) of what is decoded; it counts where the model takes
                pictures as they are.
        """
        size = picture_size if self.crop is None else (self.crop, self.crop)
        time = () if self.num_frames is None else (self.num_frames,)
        return (batch_size, 3, *time, *size)
