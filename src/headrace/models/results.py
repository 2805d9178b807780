"""What models give, as plain values on the CPU: labels, boxes, features."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The likeliest classes of each picture or clip of a batch, the likeliest first."""

    names: tuple[tuple[str, ...], ...]
    """names[k]: of picture or clip k, as many as were asked for (top-k). Names of the classes, or
    "class 7" where the weights have no names."""
    confidence: tuple[tuple[float, ...], ...]
    """Softmax probability of each of `names`, 0 to 1, descending."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Boxes:
    """What was found in each picture of a batch, and where; the surest first."""

    xyxy: tuple[NDArray[np.float32], ...]
    """xyxy[k]: of picture k, float32 [n, 4]: left, top, right, bottom, in pixels of the picture as
    the model got it, from its upper left corner."""
    classes: tuple[NDArray[np.int64], ...]
    """int64 [n]: number of the class of each box, as the model counts them."""
    labels: tuple[tuple[str, ...], ...]
    """Name of the class of each box."""
    scores: tuple[NDArray[np.float32], ...]
    """float32 [n]: how sure the model is, 0 to 1, descending."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """What layers of a model give for each picture or clip of a batch."""

    layers: Mapping[str, NDArray[np.float32]]
    """Name of the layer -> float32 [N, ...], in the layer's own dimensions."""
