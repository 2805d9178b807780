"""Is this tree as fast as headrace was at another commit, on the same media, turn by turn?

python -m benchmarks.bench_before --before HEAD~1 --count 4 --repeats 3     # a first look
python -m benchmarks.bench_before --before c470d7d                          # a record that is kept

Both are asked by their own workers (`benchmarks.worker`, `benchmarks.random_worker`), each in a
process of its own, one after the other: every frame in order, random frames, and scanning files
anew. The figure is the median of the ratios, this tree's speed to the other's of the same turn.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import media
from benchmarks.record import RESULTS, ROOT, Result, Value, conditions

SIZE = (256, 256)
_SCAN = (
    "import json, sys, time\n"
    "from headrace.video.stream_index import StreamIndex\n"
    "paths = json.load(sys.stdin)['paths']\n"
    "[StreamIndex.scan(path) for path in paths[:2]]\n"
    "began = time.perf_counter()\n"
    "[StreamIndex.scan(path) for path in paths]\n"
    "print(json.dumps({'frames': len(paths), 'wall_seconds': time.perf_counter() - began}))\n"
)


class Turn(Value):
    """What both did, one after the other."""

    before: float
    """Frames, or files, per second."""
    after: float

    @property
    def ratio(self) -> float:
        """This tree's speed, where the other's is 1."""
        return self.after / self.before


class Comparison(Value):
    """One question, on media of one kind."""

    question: str
    kind: str
    turns: tuple[Turn, ...]

    @property
    def ratio(self) -> float:
        """Median of the turns' ratios."""
        return statistics.median(turn.ratio for turn in self.turns)


class BeforeResult(Result):
    """All comparisons of one run."""

    before: str
    """The commit that this tree is held against."""
    rows: tuple[Comparison, ...]


def main() -> None:
    """Measure, print, keep."""
    options = _parser().parse_args()
    sets = {kind: media.paths(options.media, kind, options.count) for kind in media.KINDS}
    workers = os.cpu_count() or 1
    found = conditions(
        parameters={"size": SIZE, "workers": workers, "repeats": options.repeats},
        media={"recipe": media.recipe(), "count": options.count},
    )
    rows = []
    with _checked_out(options.before) as (commit, other):
        for kind, paths in sets.items():
            for question in options.questions:
                asked = _asked(question, paths, workers, options.seconds)
                turns = tuple(
                    _turn(question, asked, other, is_odd=bool(turn % 2))
                    for turn in range(options.repeats)
                )
                rows.append(Comparison(question=question, kind=kind, turns=turns))
                print(render(rows[-1]), flush=True)
    BeforeResult(conditions=found, before=commit, rows=tuple(rows)).save(options.out)
    print(options.out)


def render(row: Comparison) -> str:
    """Return one line: the ratio, its range, and both medians."""
    ratios = [turn.ratio for turn in row.turns]
    before = statistics.median(turn.before for turn in row.turns)
    after = statistics.median(turn.after for turn in row.turns)
    return (
        f"{row.kind} {row.question}: {row.ratio:.2f} of before "
        f"({min(ratios):.2f} to {max(ratios):.2f}); {before:.0f} -> {after:.0f} per second"
    )


def _turn(question: str, asked: dict[str, Any], other: Path, *, is_odd: bool) -> Turn:
    """Ask both, the one that goes first changing from turn to turn."""
    trees = [ROOT, other] if is_odd else [other, ROOT]
    speeds = {tree: _speed(question, asked, tree) for tree in trees}
    return Turn(before=speeds[other], after=speeds[ROOT])


def _speed(question: str, asked: dict[str, Any], tree: Path) -> float:
    code = {"scan": ["-c", _SCAN], "sequential": ["-m", "benchmarks.worker"]}
    command = [sys.executable, *code.get(question, ["-m", "benchmarks.random_worker"])]
    paths = os.pathsep.join([str(tree / "src"), str(tree)])
    with TemporaryDirectory() as cache:
        # An index of one is none of the other's: each scans for itself, before it is timed.
        done = subprocess.run(
            command,
            input=json.dumps(asked),
            cwd=tree,
            env={**os.environ, "PYTHONPATH": paths, "XDG_CACHE_HOME": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    answer = json.loads(done.stdout.splitlines()[-1])
    return float(answer["frames"] / answer["wall_seconds"])


def _asked(question: str, paths: Sequence[Path], workers: int, seconds: float) -> dict[str, Any]:
    asked: dict[str, Any] = {"paths": [str(path.resolve()) for path in paths]}
    if question == "sequential":
        return {
            **asked,
            "library": "headrace",
            "size": SIZE,
            "workers": workers,
            "thumbnails": None,
        }
    if question == "random_frames":
        return asked | {
            "way": "headrace",
            "size": SIZE,
            "workers": workers,
            "batch_size": 128,
            "clip": None,
            "memory_budget": "256MiB",
            "hold": "yuv420",
            "seconds": seconds,
            "pictures": None,
        }
    return asked


@contextmanager
def _checked_out(revision: str) -> Iterator[tuple[str, Path]]:
    """Yield a commit's name, and a folder with its tree; the folder is gone afterwards."""
    git = ["git", "-C", str(ROOT)]
    named = [*git, "rev-parse", "--short", f"{revision}^{{commit}}"]
    commit = subprocess.run(named, capture_output=True, text=True, check=True).stdout.strip()
    with TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(
            [*git, "worktree", "add", "--detach", "--quiet", str(tree), commit], check=True
        )
        try:
            yield commit, tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    questions = ["scan", "sequential", "random_frames"]
    parser.add_argument("--before", required=True, metavar="COMMIT")
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--count", type=int, default=12, help="videos of each kind")
    parser.add_argument("--questions", nargs="+", default=questions, choices=questions)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6, help="of random frames, in each turn")
    parser.add_argument("--out", type=Path, default=RESULTS / "before.json")
    return parser


if __name__ == "__main__":
    main()
