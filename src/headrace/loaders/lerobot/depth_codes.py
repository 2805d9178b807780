"""DepthCodes: the 12-bit values of a depth video of LeRobot, and the depths that they stand for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray

DepthUnit = Literal["mm", "m"]
"""Millimetres, as whole numbers, or metres."""

_CODES: Final = 1 << 12
_MILLIMETRES: Final = 1000.0
_MOST_MILLIMETRES: Final = (1 << 16) - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class DepthCodes:
    """How a camera's depths are kept."""

    metres: torch.Tensor
    """float32 [4096]: depth of each code."""
    unit: DepthUnit | None
    """Unit of its statistics; None: not recorded."""

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self | None:
        """Return the codes of a feature, by its `info`; None: it is no depth.

        Defaults and rounding are those of `dequantize_depth` of lerobot 0.6.1.

        Raises:
            ValueError: the depth of a code has no logarithm, or the unit is unknown.
        """
        if not (facts.get("is_depth_map") or facts.get("video.is_depth_map")):
            return None
        defaults = {"depth_min": 0.01, "depth_max": 10.0, "shift": 3.5}
        low, high, shift = (
            float(facts.get(f"video.{name}", value)) for name, value in defaults.items()
        )
        metres = torch.arange(_CODES, dtype=torch.float32)
        if facts.get("video.use_log", True):
            first, last = math.log(low + shift), math.log(high + shift)
            metres.mul_((last - first) / (_CODES - 1)).add_(first).exp_().sub_(shift)
        else:
            metres.mul_((high - low) / (_CODES - 1)).add_(low)
        unit = facts.get("depth_unit")
        if unit not in (None, *get_args(DepthUnit)):
            raise ValueError(f"depth_unit is {unit!r}")
        return cls(metres=metres.clamp_(low, high), unit=unit)

    def depths(self, codes: torch.Tensor, unit: DepthUnit) -> torch.Tensor:
        """Return the depths of codes, uint16 [..., 1, H, W], as float32 of the same shape."""
        values = self.metres
        if unit == "mm":
            values = (values * _MILLIMETRES).round_().clamp_(0, _MOST_MILLIMETRES)
        depths: NDArray[np.float32] = np.take(values.numpy(), codes.cpu().numpy(), mode="clip")
        return torch.from_numpy(depths).to(codes.device)

    def rescaled(
        self, stats: Mapping[str, NDArray[Any]], unit: DepthUnit
    ) -> Mapping[str, NDArray[Any]]:
        """Return the statistics of the camera in a unit; as they are, where theirs is unknown."""
        if self.unit in (None, unit):
            return stats
        factor = _MILLIMETRES if unit == "mm" else 1 / _MILLIMETRES
        return {name: each if name == "count" else each * factor for name, each in stats.items()}
