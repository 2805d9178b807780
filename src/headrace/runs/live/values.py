"""What goes through a live run: pictures or clips that go through the model together."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.live.frame import LiveFrame

View = tuple[LiveFrame, ...]
"""What the model gives one answer for: one frame, or the frames of a clip in order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered:
    """Views of one size that go through the model together."""

    views: tuple[View, ...]
    is_clips: bool

    @property
    def newest_ns(self) -> int:
        """When the newest frame arrived: latency counts from here."""
        return max(view[-1].arrived_ns for view in self.views)

    @property
    def shown_ns(self) -> int:
        """When the oldest frame that is shown arrived; of a clip its newest is."""
        return min(view[-1].arrived_ns for view in self.views)

    @property
    def oldest_ns(self) -> int:
        """When the oldest frame arrived, that of a clip included."""
        return min(view[0].arrived_ns for view in self.views)

    def pixels(self) -> NDArray[np.uint8]:
        """Return pictures uint8 [N, H, W, 3] or clips uint8 [N, T, H, W, 3], RGB; a copy."""
        if not self.is_clips:
            return np.stack([view[0].pixels for view in self.views])
        return np.stack([np.stack([frame.pixels for frame in view]) for view in self.views])


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Views that are ready for the model."""

    gathered: Gathered
    tensor: torch.Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Answered:
    """Views, and what the model gave for each."""

    gathered: Gathered
    outputs: tuple[Any, ...]
    """One for each of the views."""
