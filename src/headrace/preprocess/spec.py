"""The picture a model was trained to see."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """The picture a model was trained to see."""

    resize: int
    """Length of the short side after resizing, pixels."""
    crop: int
    """Side of the square cut from the centre, pixels; the input's height and width."""
    mean: tuple[float, ...]
    """Of each channel (RGB, 0 to 1), subtracted."""
    std: tuple[float, ...]
    """Of each channel, divided by."""
    interpolation: str
    """`bilinear` or `bicubic`."""
