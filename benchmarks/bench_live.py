"""What does live cost, how fresh does it stay, and what becomes of it when the source fails?

python -m benchmarks.bench_live --quick              # a first look, no figures
python -m benchmarks.bench_live --only overlap       # one part; the others are kept
python -m benchmarks.bench_live                      # a record that is kept; 8 minutes

own_cost   age of a frame in the pipeline, beside a bare loop in one thread
overload   three times as many frames as the model takes, for a minute: their age, memory, drops
overlap    threads beside one after another, and beside what stages and cores allow
rtsp       a real server that falls silent, is killed and restarted
rivals     the same stream shown by loops over OpenCV, as people write them
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.live.clip import numbered_clip
from benchmarks.live.overlap import CASES, OverlapScale, measure_overlap
from benchmarks.live.overload import OverloadScale, measure_overload
from benchmarks.live.own_cost import OwnCostScale, measure_own_cost
from benchmarks.live.record import LiveResult, Part, Recovering, Recovery
from benchmarks.live.recovering import recover
from benchmarks.live.rivals import RivalsScale, measure_rivals
from benchmarks.media import DEFAULT_ROOT
from benchmarks.record import RESULTS, ROOT, origin
from benchmarks.resources import Meter
from benchmarks.runner import Ask, WorkerError, ask_worker
from headrace.testing.rtsp import can_serve_rtsp

PARTS = ("own_cost", "overload", "overlap", "rtsp", "rivals")
_NEED_SERVER = ("rtsp", "rivals")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured."""

    clip_seconds: int = 80
    own_cost: OwnCostScale = field(default_factory=OwnCostScale)
    overload: OverloadScale = field(default_factory=OverloadScale)
    overlap: OverlapScale = field(default_factory=OverlapScale)
    rivals: RivalsScale = field(default_factory=RivalsScale)
    cycles: int = 5
    """Stalls, and restarts, of the part `rtsp`."""


QUICK = Scale(
    clip_seconds=10,
    own_cost=OwnCostScale(models=("none",), frames=6, proved=4, repeats=1),
    overload=OverloadScale(seconds=3, warm_up_seconds=1),
    overlap=OverlapScale(cases=dict(list(CASES.items())[:1]), frames=6, proved=4, repeats=1),
    rivals=RivalsScale(ways=("headrace", "opencv_latest"), seconds=1, warm_up_seconds=1),
    cycles=1,
)
"""Shows that it works; its figures say nothing."""


def main(words: Sequence[str] | None = None, ask: Ask = ask_worker) -> None:
    """Measure part by part, keep after each, print; fails where a part could not be measured."""
    options = _parser().parse_args(words)
    scale = QUICK if options.quick else Scale()
    out = options.out or (ROOT / "build" if options.quick else RESULTS) / "live.json"
    clip = numbered_clip(options.media, scale.clip_seconds)
    made = origin({"quick": options.quick, "only": " ".join(options.only)})
    result = _kept(out) or LiveResult(provenance=made)
    known: Sequence[Recovery] = ()
    missing = []
    for part in options.only:
        if part in _NEED_SERVER and not can_serve_rtsp():
            print(f"{part}: no GStreamer RTSP server; run scripts/system_packages.sh")
            missing.append(part)
            continue
        meter = Meter()
        try:
            found = _measures(clip, scale, ask, known)[part]()
        except WorkerError as error:
            print(f"{part}: failed: {error}", flush=True)
            missing.append(part)
            continue
        known = found.found if isinstance(found, Recovering) else known
        result = result.model_copy(update={"provenance": made, part: found})
        result.save(out)
        print(f"{part}: {meter.wall_seconds:.0f} s{_disturbed(found)}", flush=True)
    if missing:
        sys.exit(f"not measured: {', '.join(missing)}")
    print(out)


def _kept(path: Path) -> LiveResult | None:
    """What was measured before, if anything was."""
    if not path.is_file():
        return None
    try:
        return LiveResult.load(path)
    except ValueError:
        sys.exit(f"{path} cannot be gone on with, it has another layout; name another --out")


def _measures(
    clip: Path, scale: Scale, ask: Ask, known: Sequence[Recovery]
) -> Mapping[str, Callable[[], Part]]:
    return {
        "own_cost": lambda: measure_own_cost(clip, scale.own_cost, ask),
        "overload": lambda: measure_overload(clip, scale.overload, ask),
        "overlap": lambda: measure_overlap(clip, scale.overlap, ask),
        "rtsp": lambda: _recovering(clip, scale.cycles, ask),
        "rivals": lambda: measure_rivals(clip, scale.rivals, ask, known),
    }


def _recovering(clip: Path, cycles: int, ask: Ask) -> Recovering:
    made = origin({"way": "headrace", "cycles": cycles, "clip": clip.name})
    found, meter = recover("headrace", clip, cycles, ask)
    if found.failure is not None:
        raise WorkerError(found.failure)
    return Recovering(provenance=made, found=(found,), others_share=Part.share_of([meter]))


def _disturbed(part: Part) -> str:
    share = part.others_share
    return "" if share is None else f", others took {share:.0%} of the processor time"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--media", type=Path, default=DEFAULT_ROOT, help="folder of the clip")
    add("--only", nargs="+", default=list(PARTS), choices=PARTS, metavar="PART")
    add("--quick", action="store_true", help="show that it works; by default to build/live.json")
    add("--out", type=Path, help="by default benchmarks/results/live.json")
    return parser


if __name__ == "__main__":
    main()
