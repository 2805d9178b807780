"""Recommendations: the best strategy, and the estimated gain of proxies with short GOPs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.sampling.decode_cost import DecodeCost, lookahead_cost, lookahead_for
from headrace.sampling.frame_samplers import Bursts
from headrace.sampling.strategies import Budget, Strategy

SHORT_GOP = 8
"""Frames in a GOP of a proxy. About four are decoded per frame delivered; longer GOPs take less
disk, and more decoding."""

_BYTES_PER_PIXEL = 0.028
"""Bytes per pixel of a proxy: libx264 veryfast, crf 20, 256x256, GOP 8, no B-frames; measured on
clips: 0.0282."""
_ENTERING_SECONDS = 0.0003
"""Seconds to enter a GOP of a proxy, without probing a file or creating a codec. Assumed, not
measured."""
_SMALL_FRAME_FACTOR = 2.0
"""Decode time per pixel of a small frame ÷ a large frame: 2.7 ns at 256x256, 1.5 ns at 720p."""
_ENCODING = 4.0
"""CPU time to encode the copies ÷ CPU time to decode them."""
_MIN_GAIN = 1.5
"""Min throughput from the copies ÷ throughput now, for which copies pay."""
_MAX_EPOCHS = 10
"""Max epochs within which the copies must save the encoding time."""


@dataclass(frozen=True, kw_only=True)
class Reencode:
    """Estimated gain of re-encoding, with the same memory; sizes and times may be off by half."""

    gop: int
    """Frames in a GOP of the copies."""
    disk_bytes: int
    """Size of the copies."""
    seconds: float
    """Seconds to encode the copies, on all cores."""
    before: float
    """Frames per second of the recommended strategy now."""
    after: float
    """Frames per second of look-ahead from the copies, read as proxies, without probing files."""
    amplification_before: float
    """Frames decoded per frame delivered, by look-ahead now."""
    amplification_after: float
    """Frames decoded per frame delivered, from the copies."""
    epochs: float | None
    """Epochs after which the saved time exceeds the encoding time; None: never."""
    why_not: str
    """Reason why it does not pay; empty: it pays. It pays if GOPs are now at least twice as long,
    reading gets at least 1.5 times as fast, the encoding time is saved within 10 epochs, and the
    target is not reached now."""

    @property
    def pays(self) -> bool:
        """Whether the copies pay."""
        return not self.why_not


def reencode(
    gop_lengths: NDArray[np.int64],
    now: Strategy,
    *,
    before: float,
    pixels: float,
    target: float | None = None,
    cost: DecodeCost | None = None,
) -> Reencode:
    """Return the estimated cost and gain of re-encoding these videos.

    Args:
        gop_lengths: int64 [GOPs] of all videos.
        now: The lookahead strategy for these videos; its budget has the frame size of the copies.
        before: Frames per second of the recommended strategy.
        pixels: Mean pixels of a frame now.
        target: Frames per second of the model; None: as many as possible.
        cost: Decode cost with the copies; None: by formula, for random frames.
    """
    speed, budget = now.speed, now.budget
    frames = int(gop_lengths.sum())
    small_pixels = budget.frame_bytes / 3
    decoding = speed.seconds_per_decoded * min(1.0, _SMALL_FRAME_FACTOR * small_pixels / pixels)
    faster = replace(
        speed,
        seconds_per_decoded=decoding,
        seconds_per_seek=min(speed.seconds_per_seek, _ENTERING_SECONDS),
        droppable_share=0.0,
    )
    cost = cost or _cost_of_copies(frames, budget)
    after = faster.throughput(cost)
    encoding = speed.seconds_per_decoded + speed.seconds_per_delivered + _ENCODING * decoding
    seconds = frames * encoding / speed.workers
    saved = frames / before - frames / after
    epochs = seconds / saved if saved > 0 else None
    return Reencode(
        gop=SHORT_GOP,
        disk_bytes=int(frames * small_pixels * _BYTES_PER_PIXEL),
        seconds=seconds,
        before=before,
        after=after,
        amplification_before=now.amplification,
        amplification_after=cost.amplification,
        epochs=epochs,
        why_not=_reason_against(gop_lengths, before, after, epochs, target),
    )


def short_gops(frames: int) -> NDArray[np.int64]:
    """Return the GOP lengths of a copy with `frames` frames, int64."""
    full, rest = divmod(frames, SHORT_GOP)
    return np.append(np.full(full, SHORT_GOP), [rest] * (rest > 0)).astype(np.int64)


def _cost_of_copies(frames: int, budget: Budget) -> DecodeCost:
    """Return the decode cost with the same memory."""
    lengths = short_gops(frames)
    ahead = min(lookahead_for(lengths, max(1, budget.later_frames)), 4 * frames)
    return lookahead_cost(lengths, ahead)


def _reason_against(
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
        return f"{target:,.0f} frames/s are reached as it is"
    times = f"{after / before:.1f} times as fast"
    if after < before:
        return f"slower ({times}): what is decoded now costs less than their seeks and decoding"
    if after < _MIN_GAIN * before:
        return f"only {times}, too little for the work"
    if epochs is None or epochs > _MAX_EPOCHS:
        return f"making them takes as long as {epochs or 0:,.0f} epochs save"
    return ""


_TIE = 1.05
"""Ratio of two predictions up to which they count as equal."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Recommended strategy, with the reason."""

    strategy: Strategy
    reaches_target: bool
    """False: there is a target, and no sound strategy reaches it."""
    why: str
    """Reason, in a sentence."""


def recommend(strategies: Sequence[Strategy], target: float | None = None) -> Recommendation:
    """Return the best sound strategy for training.

    With a target in frames per second: the strategy with the least noise that reaches it; if none
    does, the fastest. Without a target, training waits for the loader: the strategy with the least
    noise per second, inflation ÷ throughput. Within 5 %, the one with the lower inflation; on a
    tie, the first.

    Args:
        strategies: Result of `compare`; the naive strategy is always sound.
        target: As for `compare`.
    """
    sound = [strategy for strategy in strategies if strategy.is_sound]
    if target is None:
        lowest = min(map(_noise_per_second, sound))
        ties = [strategy for strategy in sound if _noise_per_second(strategy) <= lowest * _TIE]
        best = min(ties, key=lambda s: (s.inflation, s.inflation_at))
        return Recommendation(
            strategy=best, reaches_target=True, why=_explain_least_noise(best, sound)
        )
    reaching = [strategy for strategy in sound if strategy.frames_per_second >= target]
    if not reaching:
        best = max(sound, key=lambda s: (s.frames_per_second, -s.inflation_at))
        why = (
            f"nothing here reaches {target:,.0f} frames/s, and this is the fastest; more cores, "
            "more memory, smaller GOPs or fewer pixels would help"
        )
        return Recommendation(strategy=best, reaches_target=False, why=why)
    best = min(reaching, key=lambda s: (s.inflation, s.inflation_at, -s.frames_per_second))
    return Recommendation(
        strategy=best, reaches_target=True, why=_explain_target(best, sound, target)
    )


def _noise_per_second(strategy: Strategy) -> float:
    return strategy.inflation / strategy.frames_per_second


def _explain_least_noise(best: Strategy, sound: Sequence[Strategy]) -> str:
    """Return the reason why `best` has the least noise per second."""
    if best.inflation > 1:
        exact = max((s for s in sound if s.inflation == 1), key=lambda s: s.frames_per_second)
        even = _break_even_rho(best, exact)
        condition = f"if rho is below {even:.2f}" if even < 1 else "for any rho"
        return (
            f"{_times(best, exact)} as fast as {exact.name}, and over many steps only "
            f"{best.inflation:.1f} times as noisy: the speed outweighs the noise {condition}"
        )
    why = f"no uncorrelated strategy is clearly faster{_shuffle_note(best)}"
    correlated = next((strategy for strategy in sound if strategy.inflation > 1), None)
    if correlated is None:
        return why
    if correlated.frames_per_second < best.frames_per_second * _TIE:
        return f"{why}; {correlated.name} would not be faster"
    return (
        f"{why}; {correlated.name} would be {_times(correlated, best)} as fast but, over many "
        f"steps, {correlated.inflation:.1f} times as noisy{_turning_point(correlated, best)}"
    )


def _break_even_rho(bursts: Strategy, exact: Strategy) -> float:
    """Return the ρ at which the noise of bursts, 1 + (m-1)ρ, equals their speedup."""
    return (bursts.frames_per_second / exact.frames_per_second - 1) / _mates(bursts)


def _turning_point(bursts: Strategy, exact: Strategy) -> str:
    """Return the ρ below which bursts would be better, as text; empty: not below the assumed ρ."""
    even, assumed = _break_even_rho(bursts, exact), (bursts.inflation - 1) / _mates(bursts)
    return f"; they would be better if rho is below {even:.2f}" if even < assumed else ""


def _mates(bursts: Strategy) -> int:
    assert isinstance(bursts.sampler, Bursts)
    return bursts.sampler.frames_per_burst - 1


def _explain_target(best: Strategy, sound: Sequence[Strategy], target: float) -> str:
    """Return the reason why `best` has the least noise of the strategies that reach the target."""
    if best.inflation == 1:
        return f"it reaches {target:,.0f} frames/s without any correlation{_shuffle_note(best)}"
    exact = max((s for s in sound if s.inflation == 1), key=lambda s: s.frames_per_second)
    return (
        f"the least correlation that reaches {target:,.0f} frames/s; {exact.name}, without "
        f"correlation, reaches {exact.frames_per_second:,.0f}"
    )


def _shuffle_note(best: Strategy) -> str:
    is_less_noisy = best.inflation_at < 1 / _TIE
    return ", and a shuffle has less noise than independent draws" if is_less_noisy else ""


def _times(one: Strategy, other: Strategy) -> str:
    return f"{one.frames_per_second / other.frames_per_second:.1f} times"
