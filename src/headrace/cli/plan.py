"""`headrace plan`: sampling strategies for a set of videos, with their predicted cost."""

import json as json_format
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.config_flags import (
    JSON,
    RateFlag,
    configured,
    keyword,
    option,
    parameters,
    with_parameters,
)
from headrace.cli.progress import progress, waiting
from headrace.cli.sources import sources_of
from headrace.planner.plan_config import PlanConfig


def _plan(
    videos: list[Path],
    measure: bool,
    measure_seconds: float,
    rate: str | None,
    json: bool,
    **typed: Any,
) -> None:
    config = configured(PlanConfig, typed, trial_seconds=measure_seconds if measure else None)
    sources = sources_of(videos, rate=rate)
    with waiting("loading PyTorch", is_quiet=json):
        from headrace.planner.plan_facts import plan_facts
        from headrace.planner.plan_output import render_plan
        from headrace.planner.planner import plan as make_plan

    with progress(is_quiet=json) as on_progress:
        plan = make_plan(sources, config, on_progress=on_progress)
    paths = [str(video) for video in videos]
    print(
        json_format.dumps(plan_facts(plan, paths), indent=1) if json else render_plan(plan, paths)
    )


_VIDEOS = Annotated[list[Path], typer.Argument(help="Video files, or folders of them.")]

plan = with_parameters(
    _plan,
    [
        keyword("videos", _VIDEOS, MISSING),
        *parameters(PlanConfig),
        option(
            "measure", bool, False, "Also run each strategy, to check its prediction.", "--measure"
        ),
        option(
            "measure_seconds",
            float,
            10.0,
            "Measured seconds per strategy; warm-up takes up to six times as long.",
            min=0.1,
        ),
        keyword("rate", RateFlag, None),
        JSON,
    ],
    "Compare sampling strategies: speed, memory, bias and noise; recommend one.",
)
