"""When a player shows the frames of a proxy: as those of its original, where MP4 can say it."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.video.stream_index import StreamIndex

_MOST: Final = (1 << 31) - 1
"""Ticks in a second, and between two frames, that MP4 holds."""

_MICROSECONDS: Final = 1_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class PlayTimes:
    """Times for players. Whoever trains is told those of the original's index, which are exact."""

    ticks_per_second: int
    pts: NDArray[np.int64]
    """int64 [frames], each above the one before, none below 0."""
    duration: NDArray[np.int64]
    """int64 [frames]."""

    @classmethod
    def of(cls, index: StreamIndex) -> "PlayTimes":
        """Return the times of a video: its own where its tick is 1/n of a second."""
        tick = index.info.time_base
        scale, pts, last = tick.denominator, index.pts * tick.numerator, int(index.duration[-1])
        if scale > _MOST:
            scale = _MICROSECONDS
            pts = np.rint(index.pts * (float(tick) * scale)).astype(np.int64)
        gaps = np.clip(np.diff(pts), 1, _MOST)
        end = np.clip([round(last * tick * scale)], 1, _MOST)
        return cls(
            ticks_per_second=scale,
            pts=max(0, int(pts[0])) + np.concatenate(([0], np.cumsum(gaps))),
            duration=np.concatenate((gaps, end)),
        )
