"""Reencode: what proxies, with short GOPs at the size of the model, would cost and gain."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.costs import DecodeCost, lookahead_cost, lookahead_for
from headrace.sampling.strategies import Budget, Strategy

SHORT_GOP = 8
"""Frames: some four are decoded for one; longer GOPs are smaller, and dearer to enter."""

_BYTES_PER_PIXEL = 0.028
"""libx264 veryfast, crf 20, 256x256, GOP 8 without B-frames: real clips, 0.0282."""
_ENTERING_SECONDS = 0.0003
"""Taken, not measured by itself: to enter a GOP of a proxy, no file is probed and no codec made."""
_DEARER_SMALL = 2.0
"""Decoding costs more for each pixel of a small frame: 2.7 ns at 256x256, 1.5 ns at 720p."""
_ENCODING = 4.0
"""Encoding ÷ decoding of those copies, in CPU time."""
_LEAST_GAIN = 1.5
_EPOCHS = 10


@dataclass(frozen=True, kw_only=True)
class Reencode:
    """An estimate for look-ahead in the same memory; files and times may be off by half."""

    gop: int
    """Frames in a GOP of the copies."""
    disk_bytes: int
    """Size of the copies."""
    seconds: float
    """Time to make them, on all cores."""
    before: float
    """Frames per second now."""
    after: float
    """Frames per second from the copies, read as proxies: no file is probed."""
    amplification_before: float
    """Frames decoded per frame delivered now."""
    amplification_after: float
    """The same from the copies."""
    epochs: float | None
    """Epochs after which the time is earned back; None if never."""
    why_not: str
    """Why it does not pay; empty if it does. It does where GOPs are at least twice as long now,
    reading gets 1.5 times as fast or more, and the time is earned back in 10 epochs or fewer; never
    where the target is reached now."""

    @property
    def pays(self) -> bool:
        """Whether it is worth doing."""
        return not self.why_not


def reencode(
    gop_lengths: NDArray[np.int64],
    now: Strategy,
    *,
    pixels: float,
    target: float | None = None,
    cost: DecodeCost | None = None,
) -> Reencode:
    """Return what it would cost and gain to encode these videos once more.

    Args:
        gop_lengths: int64 [GOPs] of all videos.
        now: The look-ahead strategy for them; says how large a frame of the copies is.
        pixels: Pixels of a frame now, on average.
        target: Frames per second that the model takes; None means as many as there are.
        cost: What `now` would cost with the copies; None: by formula, of random frames.
    """
    speed, budget = now.speed, now.budget
    frames = int(gop_lengths.sum())
    small = budget.frame_bytes / 3
    decoding = speed.seconds_per_decoded * min(1.0, _DEARER_SMALL * small / pixels)
    faster = replace(
        speed,
        seconds_per_decoded=decoding,
        seconds_per_seek=min(speed.seconds_per_seek, _ENTERING_SECONDS),
        droppable_share=0.0,
    )
    cost = cost or _cost_of_copies(frames, budget)
    before, after = now.frames_per_second, faster.throughput(cost)
    encoding = speed.seconds_per_decoded + speed.seconds_per_delivered + _ENCODING * decoding
    seconds = frames * encoding / speed.workers
    saved = frames / before - frames / after
    epochs = seconds / saved if saved > 0 else None
    return Reencode(
        gop=SHORT_GOP,
        disk_bytes=int(frames * small * _BYTES_PER_PIXEL),
        seconds=seconds,
        before=before,
        after=after,
        amplification_before=now.amplification,
        amplification_after=cost.amplification,
        epochs=epochs,
        why_not=_why_not(gop_lengths, before, after, epochs, target),
    )


def short_gops(frames: int) -> NDArray[np.int64]:
    """Return the lengths of the GOPs of a copy of so many frames, int64."""
    whole, rest = divmod(frames, SHORT_GOP)
    return np.append(np.full(whole, SHORT_GOP), [rest] * (rest > 0)).astype(np.int64)


def _cost_of_copies(frames: int, budget: Budget) -> DecodeCost:
    """Return the cost of look-ahead in the same memory; below 1 its limits hardly let it come."""
    lengths = short_gops(frames)
    ahead = min(lookahead_for(lengths, max(1, budget.later_frames)), 4 * frames)
    cost = lookahead_cost(lengths, ahead)
    return replace(cost, amplification=max(1.0, cost.amplification))


def _why_not(
    gop_lengths: NDArray[np.int64],
    before: float,
    after: float,
    epochs: float | None,
    target: float | None,
) -> str:
    gop = float(gop_lengths @ gop_lengths) / int(gop_lengths.sum())
    if gop < 2 * SHORT_GOP:
        return f"GOPs are short already: {gop:.0f} frames"
    if target is not None and before >= target:
        return f"look-ahead reaches {target:,.0f} frames/s as it is"
    if after < _LEAST_GAIN * before:
        return f"look-ahead would be {after / before:.1f} times as fast, too little for the work"
    if epochs is None or epochs > _EPOCHS:
        return f"making them takes as long as {epochs or 0:,.0f} epochs save"
    return ""
