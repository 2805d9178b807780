"""Input of a model: single frames or clips, their size and normalisation."""

from dataclasses import dataclass
from typing import Literal

from headrace.errors import ConfigError
from headrace.units import check_integers

PrepLevel = Literal["simple", "medium", "complex"]
"""Amount of preprocessing: see `build_preprocess`."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """Input that a model was trained on.

    `resize` and `crop` are both None for a model that resizes by itself, as detectors do: their
    boxes are in pixels of the given frame.
    """

    resize: int | tuple[int, int] | None
    """Length of the short side after resizing in pixels, or (height, width)."""
    crop: int | None
    """Side of the centre crop in pixels; height and width of the input."""
    mean: tuple[float, ...]
    """Mean of each channel (RGB in [0, 1]), subtracted."""
    std: tuple[float, ...]
    """Standard deviation of each channel, the divisor."""
    interpolation: str
    """`bilinear` or `bicubic`."""
    antialias: bool = True
    """Whether shrinking uses antialiasing; torchvision's video weights were evaluated without."""
    num_frames: int | None = None
    """Frames of a clip in the evaluation of its weights; None: single frames."""

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
            batch_size: Frames or clips in it.
            picture_size: (height, width) of decoded frames, used for models without an input size.
        """
        size = picture_size if self.crop is None else (self.crop, self.crop)
        time = () if self.num_frames is None else (self.num_frames,)
        return (batch_size, 3, *time, *size)
