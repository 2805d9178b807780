"""What charts of timed rows have in common: medians with bars, and the line of what is enough."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from headrace.experiments.contend import Spread


def error_bars(rates: Sequence[Spread], color: str) -> dict[str, Any]:
    """Return bars from the lowest to the highest, to lie on the medians."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [rate.highest - rate.median for rate in rates],
        "arrayminus": [rate.median - rate.lowest for rate in rates],
        "color": color,
        "thickness": 1.2,
    }


def dashed(color: str, **places: Any) -> go.Scatter:
    """Return a straight dashed line; `places` are its x and y, and its name if it has one."""
    return go.Scatter(
        mode="lines",
        line={"color": color, "width": 1.2, "dash": "dash"},
        hoverinfo="skip",
        **places,
    )
