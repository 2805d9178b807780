"""Recommendation: the strategy to take, and why."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.sampling.bursts import Bursts
from headrace.sampling.strategies import Strategy

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
