"""A plan as plain values, for JSON."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from headrace.planner.planner import Plan
from headrace.sampling.strategies import Strategy

_CLIPS = ("ClipLoader", "clips")


def plan_facts(made: Plan, videos: Sequence[str]) -> dict[str, Any]:
    """Return all that a plan of `videos` holds: texts, numbers, lists and dictionaries."""
    contents = asdict(made.contents)
    contents["left_out"] = [
        {"source": error.source, "error": str(error)} for error in made.contents.left_out
    ]
    best = made.recommendation
    return {
        "config": {**asdict(made.config), "batch_size": made.config.samples_per_batch},
        "noise": asdict(made.noise),
        "contents": contents,
        "decoding": {**asdict(made.decoding), "is_told_apart": made.decoding.is_told_apart},
        "strategies": [
            {
                **_row_facts(row),
                "is_recommended": row is best.strategy,
                "measured": asdict(made.trials[row.name]) if row.name in made.trials else None,
            }
            for row in made.strategies
        ],
        "recommendation": {
            "name": best.strategy.name,
            "reaches_target": best.reaches_target,
            "why": best.why,
            "loader": loader_call(best.strategy, made),
        },
        "reencode": {**asdict(made.reencode), "command": proxy_command(made, videos)},
    }


def _row_facts(row: Strategy) -> dict[str, Any]:
    return {
        "name": row.name,
        "sampling": None if row.sampler is None else repr(row.sampler),
        "lookahead": row.lookahead,
        "frames_per_second": row.frames_per_second,
        "amplification": row.amplification,
        "seeks": row.cost.seeks,
        "memory_bytes": row.memory_bytes,
        "bias_bound": row.bias_bound,
        "design_effect": row.design_effect,
        "autocorrelation": row.autocorrelation,
        "inflation": row.inflation,
        "inflation_at": row.inflation_at,
        "words": row.words,
        "why_not": row.why_not,
    }


def loader_call(row: Strategy, made: Plan) -> str:
    """Return the loader to write for a strategy."""
    loader, argument = ("FrameLoader", "sampling") if made.config.num_frames is None else _CLIPS
    is_default = row.lookahead in (row.budget.lookahead, row.budget.lookahead_once)
    lookahead = "" if is_default else f", lookahead={row.lookahead}"
    config = made.config
    return (
        f"{loader}(videos, batch_size={config.samples_per_batch}, size={config.size}, "
        f"{argument}={_sampler_call(row.sampler)}, memory_budget={config.memory_budget!r}"
        f"{lookahead})"
    )


def _sampler_call(sampler: object) -> str:
    """Return the sampler to write: its fields that are not their defaults."""
    assert is_dataclass(sampler)
    given = [(each.name, getattr(sampler, each.name), each.default) for each in fields(sampler)]
    named = {name: value for name, value, default in given if value != default}
    if "fps" in named:
        named["fps"] = str(named["fps"])
    arguments = ", ".join(f"{name}={value!r}" for name, value in named.items())
    return f"{type(sampler).__name__}({arguments})"


def proxy_command(made: Plan, videos: Sequence[str]) -> str:
    """Return the command that makes the proxies of `videos` that a plan reckons with.

    Args:
        made: The plan.
        videos: Files, folders and lists, as they were named.
    """
    size = "x".join(str(side + side % 2) for side in made.config.size)
    named = [f"./{each}" if each.startswith("-") else each for each in videos]
    rest = ("-o", "proxies", "--size", size, "--gop", str(made.reencode.gop))
    return shlex.join(["headrace", "proxy", *named, *rest])
