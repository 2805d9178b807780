"""What all features of a table have in common, as its file says it."""

import json
from dataclasses import asdict, dataclass, fields
from math import prod
from typing import Any, Final, Literal

from headrace.errors import ConfigError

Dtype = Literal["float32", "float16"]
"""Of features as they are kept."""
DTYPES: Final[tuple[Dtype, ...]] = ("float32", "float16")
VERSION: Final = 1
"""Of the layout of tables; another one is not read."""


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
        return json.dumps({"version": VERSION, **asdict(self)})

    @classmethod
    def parse(cls, text: str) -> "TableFacts":
        """Return what `text` made.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        plain: dict[str, Any] = json.loads(text)
        if plain["version"] != VERSION:
            raise ValueError(f"its layout is version {plain['version']}, not {VERSION}")
        known = {each.name: plain[each.name] for each in fields(cls)}
        return cls(**{**known, "shape": tuple(map(int, plain["shape"]))})
