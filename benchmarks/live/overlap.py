"""What a thread for each stage gains, beside what its stages and the cores allow."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.live.record import Overlap, OverlapCase, OverlapPair, Part
from benchmarks.record import origin
from benchmarks.runner import Ask

_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
CASES: Mapping[str, Mapping[str, Any]] = {
    "a model that waits for another device": {"threads": 1, "waits": True},
    "a core for each stage": {"threads": 1, "waits": False},
    "a model that takes all cores": {"threads": _CORES, "waits": False},
}


@dataclass(frozen=True, kw_only=True)
class OverlapScale:
    """How much is measured."""

    cases: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: CASES)
    frames: int = 100
    """In each repeat."""
    proved: int = 20
    repeats: int = 5


def measure_overlap(clip: Path, scale: OverlapScale, ask: Ask) -> Overlap:
    """Measure each case in a process of its own."""
    made = origin({"frames": scale.frames, "repeats": scale.repeats, "clip": clip.name})
    cases, meters = [], []
    for name, how in scale.cases.items():
        found = ask(
            {
                "question": "live_overlap",
                "cores": None,
                "clip": str(clip.resolve()),
                **how,
                "frames": scale.frames,
                "proved": scale.proved,
                "repeats": scale.repeats,
            }
        )
        meters.append(found["meter"])
        cases.append(
            OverlapCase(
                name=name,
                frames=scale.frames,
                cores=_CORES,
                proved_frames=scale.proved,
                pairs=tuple(_pair(*pair) for pair in found["pairs"]),
            )
        )
    return Overlap(provenance=made, others_share=Part.share_of(meters), cases=tuple(cases))


def _pair(plain: Mapping[str, Any], threaded: Mapping[str, Any]) -> OverlapPair:
    return OverlapPair(
        sequential_seconds=plain["seconds"],
        sequential_cpu_seconds=plain["cpu_seconds"],
        threaded_seconds=threaded["seconds"],
        stage_ms=plain["stage_ms"],
        threaded_stage_ms=threaded["stage_ms"],
    )
