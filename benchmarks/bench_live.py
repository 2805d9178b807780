"""What latency does the live pipeline add, and how does it handle overload and failed streams?

python -m benchmarks.bench_live --quick              # a first look, without valid figures
python -m benchmarks.bench_live --only overlap       # one part; keeps the others
python -m benchmarks.bench_live                      # the full run, 8 minutes

own_cost   age of a frame in the pipeline, compared with a bare loop in one thread
overload   frames at three times the model's rate, for a minute: age, memory, drops
overlap    speedup by one thread per stage, and its bounds by stages and cores
rtsp       recovery from a real server that stalls, or is killed and restarted
rivals     the same stream shown by common loops over OpenCV
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.command_line import call
from benchmarks.live import recovering, threads
from benchmarks.live.figures import Part
from benchmarks.live.overload import Overloaded, measure_overload, overload
from benchmarks.live.rivals import Rivals, measure_rivals, rivals
from benchmarks.live.source import numbered_clip
from benchmarks.media import DEFAULT_ROOT
from benchmarks.record import RESULTS, Repeat, Result, origin
from benchmarks.worker import ROOT, Ask, Meter, WorkerError, ask_worker
from headrace.testing.rtsp import can_serve_rtsp

PARTS: Mapping[str, tuple[Callable[..., Part], Callable[[Any], str]]] = {
    "own_cost": (threads.measure_own_cost, threads.own_cost),
    "overload": (measure_overload, overload),
    "overlap": (threads.measure_overlap, threads.overlap),
    "rtsp": (recovering.measure_recovering, recovering.rtsp),
    "rivals": (measure_rivals, rivals),
}
"""Part → functions that measure and render it."""
_NEED_SERVER = ("rtsp", "rivals")


class LiveResult(Result):
    """All measured parts, each with its own provenance."""

    own_cost: threads.OwnCost | None = None
    overload: Overloaded | None = None
    overlap: threads.Overlap | None = None
    rtsp: recovering.Recovering | None = None
    rivals: Rivals | None = None


_FEW = {"frames": 6, "proved": 4, "repeats": 1}
QUICK: Mapping[str, Mapping[str, Any]] = {
    "own_cost": {"models": ("none",), **_FEW},
    "overload": {"seconds": 3, "warm_up_seconds": 1},
    "overlap": {"cases": dict(list(threads.CASES.items())[:1]), **_FEW},
    "rtsp": {"cycles": 1},
    "rivals": {"ways": ("headrace", "opencv_latest"), "seconds": 1, "warm_up_seconds": 1},
}
"""Part → settings of a run that only checks that the part works."""


def main(
    *,
    media: Path = DEFAULT_ROOT,
    only: tuple[str, ...] = tuple(PARTS),
    quick: bool = False,
    out: Path | None = None,
    ask: Ask = ask_worker,
) -> None:
    """Measure the parts, save after each, and fail if a part could not be measured.

    Args:
        media: folder of the clip
        only: parts to measure
        quick: only check that each part works; writes to build/live.json by default
        out: path of the result, by default benchmarks/results/live.json
        ask: function that sends a request to a worker process
    """
    out = out or (ROOT / "build" if quick else RESULTS) / "live.json"
    clip = numbered_clip(media, 10 if quick else 80)
    source = origin(quick=quick, only=" ".join(only))
    try:
        result = LiveResult.load(out) if out.is_file() else LiveResult(provenance=source)
    except ValueError:
        sys.exit(f"{out} has another layout and cannot be continued; name another --out")
    known: Sequence[recovering.Recovery] = ()
    missing = []
    for part in only:
        meter = Meter()
        try:
            if part in _NEED_SERVER and not can_serve_rtsp():
                raise WorkerError("no GStreamer RTSP server; run scripts/system_packages.sh")
            options = {"known": known} if part == "rivals" else {}
            measured = PARTS[part][0](clip, ask, **options, **(QUICK[part] if quick else {}))
        except WorkerError as error:
            print(f"{part}: failed: {error}", flush=True)
            missing.append(part)
            continue
        known = measured.found if isinstance(measured, recovering.Recovering) else known
        share = Repeat.model_validate(meter.read()).others_share
        measured = measured.model_copy(update={"others_share": share})
        result = result.model_copy(update={"provenance": source, part: measured})
        result.save(out)
        print(f"{part}: {meter.wall_seconds:.0f} s. {measured.where}", flush=True)
    if missing:
        sys.exit(f"not measured: {', '.join(missing)}")
    print(out)


def live(result: LiveResult) -> str:
    """Return a table per measured part."""
    parts = {name: getattr(result, name) for name in PARTS}
    return "\n\n".join(PARTS[name][1](part) for name, part in parts.items() if part)


if __name__ == "__main__":
    call(partial(main, ask=ask_worker), __doc__)
