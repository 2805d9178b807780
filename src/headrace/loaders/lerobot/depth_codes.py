"""DepthCodes: mapping of the 12-bit codes of a LeRobot depth video to depths."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray

DepthUnit = Literal["mm", "m"]
"""Whole millimeters, or meters."""

_CODES: Final = 1 << 12
"""Number of codes."""
_MILLIMETERS: Final = 1000.0
"""Millimeters per meter."""
_MAX_MILLIMETERS: Final = (1 << 16) - 1
"""Max depth in millimeters, as in LeRobot's uint16."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DepthCodes:
    """Encoding of a camera's depths."""

    meters: torch.Tensor
    """float32 [4096]: depth of each code."""
    unit: DepthUnit | None
    """Unit of the camera's statistics; None: not recorded."""

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self | None:
        """Return the codes of a feature, from its `info`; None: not a depth feature.

        Defaults and rounding are those of `dequantize_depth` in lerobot 0.6.1.

        Raises:
            ValueError: a depth has no logarithm, or the unit is unknown.
        """
        if not (facts.get("is_depth_map") or facts.get("video.is_depth_map")):
            return None
        defaults = {"depth_min": 0.01, "depth_max": 10.0, "shift": 3.5}
        low, high, shift = (
            float(facts.get(f"video.{name}", value)) for name, value in defaults.items()
        )
        meters = torch.arange(_CODES, dtype=torch.float32)
        if facts.get("video.use_log", True):
            first, last = math.log(low + shift), math.log(high + shift)
            meters.mul_((last - first) / (_CODES - 1)).add_(first).exp_().sub_(shift)
        else:
            meters.mul_((high - low) / (_CODES - 1)).add_(low)
        unit = facts.get("depth_unit")
        if unit not in (None, *get_args(DepthUnit)):
            raise ValueError(f"depth_unit is {unit!r}")
        return cls(meters=meters.clamp_(low, high), unit=unit)

    def depths(self, codes: torch.Tensor, unit: DepthUnit) -> torch.Tensor:
        """Return the depths of codes, uint16 [..., 1, H, W], as float32 of the same shape."""
        values = self.meters
        if unit == "mm":
            values = (values * _MILLIMETERS).round_().clamp_(0, _MAX_MILLIMETERS)
        depths: NDArray[np.float32] = np.take(values.numpy(), codes.cpu().numpy(), mode="clip")
        return torch.from_numpy(depths).to(codes.device)

    def rescaled(
        self, stats: Mapping[str, NDArray[Any]], unit: DepthUnit
    ) -> Mapping[str, NDArray[Any]]:
        """Return the camera's statistics in `unit`; unchanged if their unit is not recorded."""
        if self.unit in (None, unit):
            return stats
        factor = _MILLIMETERS if unit == "mm" else 1 / _MILLIMETERS
        return {
            name: values if name == "count" else values * factor for name, values in stats.items()
        }
