"""A frame as it came, with the moments of its way."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class LiveFrame:
    """One decoded frame of a source that is read as it comes."""

    pixels: NDArray[np.uint8]
    """uint8 [H, W, 3] in [0, 255], RGB, upright."""
    source: int
    """Place of the source in the list that was asked for."""
    number: int
    """Frames of this source before it, those that were dropped counted too."""
    run: int
    """Grows by one at every gap: a reconnection, frames that were dropped or lost, another size. A
    clip never holds frames of two runs."""
    pts: int
    """Presentation time in ticks of `time_base`, as the source gives it; of a format without times,
    when it arrived. Grows within a run."""
    time_base: Fraction
    """Seconds per tick."""
    arrived_ns: int
    """By the pipeline's clock: when its packet was handed over; for a file that is paced, when it
    was due. Latency counts from here."""
    segment: int = 0
    """Timeline that `pts` counts on, from 0: the next one begins with a reconnection, and where the
    source's own timestamps go back. Within one, pts grow."""
    captured_seconds: float | None = None
    """Wall clock of its capture (Unix time), by the sender's own clock; None where the sender tells
    none. Never filled in by anything else."""
