"""Strategies for clips: ways to draw batches of clips side by side, as `strategies` has frames."""

from dataclasses import replace

from headrace.sampling.bias import LAGS
from headrace.sampling.clips import RandomClips
from headrace.sampling.speed import Speed
from headrace.sampling.strategies import Budget, CostOf, Strategy


def compare_clips(
    clips: RandomClips, budget: Budget, speed: Speed, cost_of: CostOf
) -> tuple[Strategy, ...]:
    """Return the ways to draw these clips, the plainest first.

    Clips are drawn for themselves, so that a batch of them is worth as many; what a strategy is
    off by, beside others, is not asked: each draws what its words say, without bias.

    Args:
        clips: Which clips; each video once an epoch.
        budget: What batches are made in; its batch is of all frames of a batch of clips.
        speed: What decoding costs.
        cost_of: Tells what a sampler costs under a look-ahead.

    Raises:
        ConfigError: a video is too short for a clip, and is not to be left out.
    """
    ahead = budget.lookahead_once
    starts = replace(clips, each_once="starts")
    rows = (
        (
            "naive",
            clips,
            clips.num_frames,
            "each clip sought and decoded by itself: what every other row is held against",
        ),
        (
            "look-ahead",
            clips,
            ahead,
            "the very same batches, one clip of each video an epoch; a GOP is decoded once for all "
            f"of the next {ahead:,} frames",
        ),
        (
            "look-ahead, every start",
            starts,
            ahead,
            "an epoch is a shuffle of all starts, so that long videos give more clips, planned "
            f"{ahead:,} frames ahead",
        ),
    )
    return tuple(
        Strategy(
            name=name,
            sampler=sampler,
            lookahead=lookahead,
            cost=cost_of(sampler, lookahead),
            budget=budget,
            speed=speed,
            bias_bound=0.0,
            design_effect=1.0,
            inflation=1.0,
            autocorrelation=(0.0,) * LAGS,
            inflation_at=1.0,
            words=words,
        )
        for name, sampler, lookahead, words in rows
    )
