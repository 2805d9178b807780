"""What all features of a table have in common, as its file says it."""

from dataclasses import dataclass
from math import prod
from typing import Final, Literal

from headrace.errors import ConfigError
from headrace.records import from_json, recorded, to_json

Dtype = Literal["float32", "float16"]
"""Of features as they are kept."""
DTYPES: Final[tuple[Dtype, ...]] = ("float32", "float16")
VERSION: Final = 1
"""Of the layout of tables; another one is not read."""


@recorded
@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What was computed, and how: the same for every row of a table."""

    model: str
    """Name of the model, or `package.module:function` of the user's own."""
    layer: str | None
    """Whose output the features are; None: the model's."""
    weights: str
    """Digest of the weights, or what they are called."""
    shape: tuple[int, ...]
    """Of the feature of one sample."""
    dtype: Dtype
    clip_len: int | None
    """Frames of a clip; None: a sample is a frame."""
    stride: int | None
    """From one frame of a clip to the next."""
    sampling: str
    """Which frames, or where clips begin, in words."""
    request: str
    """Digest of all that was asked: tables of one folder have the same."""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ConfigError(f"features are kept as {' or '.join(DTYPES)}, got {self.dtype!r}")
        if min(self.shape, default=1) < 1:
            raise ConfigError(f"the shape of a feature has sizes >= 1, got {list(self.shape)}")

    @property
    def width(self) -> int:
        """Numbers of one feature."""
        return prod(self.shape)

    def text(self) -> str:
        """Return it as JSON."""
        return to_json(self, version=VERSION)

    @classmethod
    def parse(cls, text: str, file: object) -> "TableFacts":
        """Return what `text` made.

        Raises:
            ConfigError: it is something else; `file` is where it was read.
        """
        return from_json(cls, text, file=file, version=VERSION)
