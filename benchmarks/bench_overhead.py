"""What does it cost a step of a run that it is recorded, marked for NVTX, or traced?

python -m benchmarks.bench_overhead --turns 3 --steps 20    # a first look
python -m benchmarks.bench_overhead                         # a record that is kept

`bare` are the stages of `headrace run` with nothing recorded; `recorded` is the run as it is;
`nvtx` makes ranges, with no tool that listens; `trace` has every step in its trace. All take their
turns in one process on the same frames; the figure is the median over the turns of a step's time
to that of `bare` in the same turn. Beside it: what a step costs whose stages do nothing, which is
all that the runtime adds. A trace is written when a run is over, which is not in its steps.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks import media
from benchmarks.record import RESULTS, Result, origin
from benchmarks.runner import ask_worker
from headrace.profiling.provenance import Record

WAYS = ("bare", "recorded", "nvtx", "trace")


class Times(Record):
    """Seconds of one step, mean over the steps of one turn."""

    wall: float
    cpu: float
    """Of all threads."""


class Overhead(Record):
    """One way, turn by turn."""

    way: str
    turns: tuple[Times, ...]


class OverheadResult(Result):
    """All ways on one video."""

    rows: tuple[Overhead, ...]
    empty_step_seconds: tuple[float, ...]
    """A step of three stages that do nothing, mean over one turn."""

    def ratio(self, way: str, *, of_cpu: bool = False) -> tuple[float, float, float]:
        """Return median, least and greatest of a step's time, where `bare` is 1."""
        turns = {row.way: row.turns for row in self.rows}
        pairs = zip(turns[way], turns["bare"], strict=True)
        ratios = [a.cpu / max(1e-9, b.cpu) if of_cpu else a.wall / b.wall for a, b in pairs]
        return median(ratios), min(ratios), max(ratios)


def main(words: Sequence[str] | None = None) -> None:
    """Measure, keep, print."""
    options = _parser().parse_args(words)
    parameters = {name: getattr(options, name) for name in ("turns", "steps", "batch_size")}
    paths = media.paths(options.media, "web", 1) if options.video is None else [options.video]
    found = ask_worker(
        {
            "question": "run_looked_at",
            "cores": os.cpu_count(),
            "paths": [str(path.resolve()) for path in paths],
            "ways": WAYS,
            **parameters,
        }
    )
    result = OverheadResult(
        provenance=origin(parameters),
        media={"recipe": media.recipe(), "versions": found["versions"]},
        rows=tuple(
            Overhead(way=way, turns=tuple(Times(**each) for each in found["turns"][way]))
            for way in WAYS
        ),
        empty_step_seconds=tuple(found["empty_step_seconds"]),
    )
    result.save(options.out)
    print(render(result))
    print(options.out)


def render(result: OverheadResult) -> str:
    """Return a line for each way, and one for the runtime."""
    bare = median(each.wall for each in result.rows[0].turns)
    empty = median(result.empty_step_seconds)
    lines = [
        f"bare: {bare * 1e3:.2f} ms a step",
        *(f"{way}: {_percent(result, way)}" for way in WAYS[1:]),
        f"the runtime: {empty * 1e6:.0f} us a step, {empty / bare:.2%} of it",
    ]
    return "\n".join(lines)


def _percent(result: OverheadResult, way: str) -> str:
    said = []
    for name, of_cpu in (("a step", False), ("its CPU time", True)):
        middle, least, greatest = (each - 1 for each in result.ratio(way, of_cpu=of_cpu))
        said.append(f"{middle:+.1%} of {name} ({least:+.1%} to {greatest:+.1%})")
    return "; ".join(said)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    add("--video", type=Path, help="another video than the first of them")
    add("--turns", type=int, default=15, help="of all ways")
    add("--steps", type=int, default=70, help="of a run")
    add("--batch-size", type=int, default=4, help="frames in a step")
    add("--out", type=Path, default=RESULTS / "overhead.json")
    return parser


if __name__ == "__main__":
    main()
