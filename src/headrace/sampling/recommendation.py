"""Reencode: what proxies, with short GOPs at the size of the model, would cost and gain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.bursts import Bursts
from headrace.sampling.decode_cost import DecodeCost, lookahead_cost, lookahead_for
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


_ALIKE = 1.05
"""Predictions that differ by less are not told apart."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """One strategy, with the reason."""

    strategy: Strategy
    reaches_target: bool
    """False if there is a target and no sound strategy reaches it."""
    why: str
    """In a sentence."""


def recommend(strategies: Sequence[Strategy], target: float | None = None) -> Recommendation:
    """Return the sound strategy that serves training best.

    With a target in frames per second: the least noise of those that reach it, and where none
    does, the fastest. Without one the loader is what training waits for, so it is the least noise
    per second: inflation ÷ throughput. Within 5 %, the one with less noise in steps taken together,
    and of those that are alike in this, the first.

    Args:
        strategies: What `compare` gave; the naive one is always sound.
        target: As it was given there.
    """
    sound = [each for each in strategies if each.is_sound]
    if target is None:
        least = min(map(_noise_per_second, sound))
        alike = [each for each in sound if _noise_per_second(each) <= least * _ALIKE]
        best = min(alike, key=lambda s: (s.inflation, s.inflation_at))
        return Recommendation(strategy=best, reaches_target=True, why=_least_noise(best, sound))
    reaching = [each for each in sound if each.frames_per_second >= target]
    if not reaching:
        best = max(sound, key=lambda s: (s.frames_per_second, -s.inflation_at))
        why = (
            f"nothing here reaches {target:,.0f} frames/s, and this is the fastest; more cores, "
            "more memory, smaller GOPs or fewer pixels would help"
        )
        return Recommendation(strategy=best, reaches_target=False, why=why)
    best = min(reaching, key=lambda s: (s.inflation, s.inflation_at, -s.frames_per_second))
    return Recommendation(strategy=best, reaches_target=True, why=_calmest(best, sound, target))


def _noise_per_second(strategy: Strategy) -> float:
    return strategy.inflation / strategy.frames_per_second


def _least_noise(best: Strategy, sound: Sequence[Strategy]) -> str:
    """Say why `best` has the least noise per second."""
    if best.inflation > 1:
        exact = max((s for s in sound if s.inflation == 1), key=lambda s: s.frames_per_second)
        return (
            f"{_times(best, exact)} as fast as {exact.name}, and over many steps only "
            f"{best.inflation:.1f} times as noisy: the speed outweighs the noise"
            f"{_as_long_as(_even(best, exact))}"
        )
    why = f"nothing without correlation is clearly faster{_calmer(best)}"
    rivals = [each for each in sound if each.inflation > 1]
    if not rivals:
        return why
    rival = rivals[0]
    if rival.frames_per_second < best.frames_per_second * _ALIKE:
        return f"{why}; {rival.name} would be no faster"
    return (
        f"{why}; {rival.name} would be {_times(rival, best)} as fast but, over many steps, "
        f"{rival.inflation:.1f} times as noisy{_unless(_even(rival, best), rival)}"
    )


def _even(bursts: Strategy, exact: Strategy) -> float:
    """Return the ρ at which bursts are as many times as noisy as they are faster: 1 + (m-1)ρ."""
    return (bursts.frames_per_second / exact.frames_per_second - 1) / _mates(bursts)


def _as_long_as(even: float) -> str:
    return f", as long as rho is below {even:.2f}" if even < 1 else ", whatever rho is"


def _unless(even: float, bursts: Strategy) -> str:
    """Say which ρ would turn it, if it is one below that which was taken."""
    taken = (bursts.inflation - 1) / _mates(bursts)
    return f"; they would pay where rho is below {even:.2f}" if even < taken else ""


def _mates(bursts: Strategy) -> int:
    assert isinstance(bursts.sampler, Bursts)
    return bursts.sampler.frames_per_burst - 1


def _calmest(best: Strategy, sound: Sequence[Strategy], target: float) -> str:
    """Say why `best` has the least noise of those that reach the target."""
    if best.inflation == 1:
        return f"it reaches {target:,.0f} frames/s without any correlation{_calmer(best)}"
    exact = max((s for s in sound if s.inflation == 1), key=lambda s: s.frames_per_second)
    return (
        f"the least correlation that reaches {target:,.0f} frames/s; {exact.name}, which has none, "
        f"ends at {exact.frames_per_second:,.0f}"
    )


def _calmer(best: Strategy) -> str:
    is_calmer = best.inflation_at < 1 / _ALIKE
    return ", and a shuffle makes gradients calmer than draws do" if is_calmer else ""


def _times(one: Strategy, other: Strategy) -> str:
    return f"{one.frames_per_second / other.frames_per_second:.1f} times"
