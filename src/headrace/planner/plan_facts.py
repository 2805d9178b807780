"""Values of a plan: JSON, and the calls and commands that it advises."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Final

from headrace.planner.planner import Plan
from headrace.sampling.strategies import Strategy

_ROW_FACTS: Final = (
    *("memory_bytes", "bias_bound", "design_effect", "autocorrelation", "inflation"),
    *("inflation_at", "words", "why_not"),
)
"""Last fields of a strategy in JSON."""


def plan_facts(plan: Plan, videos: Sequence[str]) -> dict[str, Any]:
    """Return a plan as JSON-compatible values; `videos` as the user named them."""
    contents = asdict(plan.contents)
    contents["left_out"] = [
        {"source": error.source, "error": str(error)} for error in plan.contents.left_out
    ]
    best = plan.recommendation
    return {
        "config": {**asdict(plan.config), "batch_size": plan.config.samples_per_batch},
        "noise": asdict(plan.noise),
        "contents": contents,
        "decoding": {**asdict(plan.decoding), "is_told_apart": plan.decoding.is_told_apart},
        "strategies": [
            {
                **_row_facts(row),
                "is_recommended": row is best.strategy,
                "measured": asdict(plan.trials[row.name]) if row.name in plan.trials else None,
            }
            for row in plan.strategies
        ],
        "recommendation": {
            "name": best.strategy.name,
            "reaches_target": best.reaches_target,
            "why": best.why,
            "loader": loader_call(best.strategy, plan),
        },
        "spill": plan.spill
        and {**asdict(plan.spill), "fits": plan.spill.fits, "is_recommended": plan.spills},
        "reencode": {**asdict(plan.reencode), "command": proxy_command(plan, videos)},
    }


def _row_facts(row: Strategy) -> dict[str, Any]:
    return {
        "name": row.name,
        "sampling": None if row.sampler is None else repr(row.sampler),
        "lookahead": row.lookahead,
        "frames_per_second": row.frames_per_second,
        "first_epoch_frames_per_second": row.first_epoch_frames_per_second,
        "amplification": row.amplification,
        "seeks": row.cost.seeks,
        **{name: getattr(row, name) for name in _ROW_FACTS},
    }


def loader_call(row: Strategy, plan: Plan) -> str:
    """Return the loader call for a strategy; with `spill` if it makes the loader faster."""
    config = plan.config
    is_default = row.lookahead in (row.budget.lookahead, row.budget.lookahead_once)
    lookahead = "" if is_default else f", lookahead={row.lookahead}"
    argument = "sampling" if config.num_frames is None else "clips"
    spill = f", spill={config.spill!r}" if plan.spills else ""
    return (
        f"{loader_name(plan)}(videos, batch_size={config.samples_per_batch}, size={config.size}, "
        f"{argument}={_sampler_call(row.sampler)}, memory_budget={config.memory_budget!r}"
        f"{lookahead}{spill})"
    )


def loader_name(plan: Plan) -> str:
    """Return the class of the loader that delivers the plan's samples."""
    return "FrameLoader" if plan.config.num_frames is None else "ClipLoader"


def _sampler_call(sampler: object) -> str:
    """Return the sampler call, without default arguments."""
    assert is_dataclass(sampler)
    values = [(field, getattr(sampler, field.name)) for field in fields(sampler)]
    changed = {field.name: value for field, value in values if value != field.default}
    if "fps" in changed:
        rate = changed["fps"]
        changed["fps"] = rate.numerator if rate.denominator == 1 else str(rate)
    arguments = ", ".join(f"{name}={value!r}" for name, value in changed.items())
    return f"{type(sampler).__name__}({arguments})"


def proxy_command(plan: Plan, videos: Sequence[str]) -> str:
    """Return the command that creates the proxies of a plan.

    Args:
        plan: The plan.
        videos: Files, folders and lists, as the user named them.
    """
    size = "x".join(str(side + side % 2) for side in plan.config.size)
    paths = [f"./{video}" if video.startswith("-") else video for video in videos]
    options = ("-o", "proxies", "--size", size, "--gop", str(plan.reencode.gop))
    return shlex.join(["headrace", "proxy", *paths, *options])
