"""Is this tree as fast as headrace was at another commit, on the same media, turn by turn?

python -m benchmarks.bench_before --before HEAD~1 --count 4 --repeats 3     # a first look
python -m benchmarks.bench_before --before 0d18639                          # a record that is kept

The workers of this tree ask both, each in a process of its own, one after the other: every frame in
order, random frames, camera streams, and scanning files anew. The figure is the median of the
ratios, this tree's speed to the other's of the same turn. What a worker uses of headrace must be in
both. Random frames come in another order each turn: in a few seconds one order has some per cent
more or less to decode than the next, always the same for one tree.
"""

import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.camera_media import existing_index
from benchmarks.kit import CORES, SIZE, Benchmark, task_of
from benchmarks.media import DEFAULT_ROOT, KINDS, paths, recipe
from benchmarks.record import Repeat, Rows, origin
from benchmarks.worker import ROOT, SOURCE, ask_worker
from headrace.profiling.provenance import Record

QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "scan": {"case": "cases:scan_files"},
    "sequential": {"case": "cases:every_frame", "library": "headrace", "size": SIZE},
    "random_frames": {
        "case": "cases:random_frames",
        "library": "headrace",
        "size": SIZE,
        "batch_size": 128,
        "memory_budget": "256MiB",
        "hold": "yuv420",
    },
    "cameras": {"case": "cases:camera_streams"},
}
CAMERA_CLIPS, CAMERA_FRAMES = 4, 40
"""Size of the camera set: `python -m benchmarks.camera_media --clips 4 --num-frames 40`."""


class Turn(Record):
    """One repetition of both trees."""

    before: float
    """Frames, or files, per second."""
    after: float
    others_share: float | None = None
    """CPU share of other programs, the larger of both; None in old records."""

    @property
    def ratio(self) -> float:
        """This tree's speed ÷ the other's."""
        return self.after / self.before


class Comparison(Record):
    """One question, on media of one kind."""

    question: str
    kind: str
    turns: tuple[Turn, ...]

    @property
    def ratio(self) -> float:
        """Median of the ratios."""
        return median(turn.ratio for turn in self.turns)


class BeforeResult(Rows[Comparison]):
    """All comparisons of one run."""

    before: str
    """Commit to compare this tree with."""


def measure(
    *,
    before: str,
    media: Path = DEFAULT_ROOT,
    count: int = 12,
    kinds: tuple[str, ...] = tuple(KINDS),
    questions: tuple[str, ...] = tuple(QUESTIONS),
    repeats: int = 7,
    seconds: float = 6.0,
) -> Iterator[BeforeResult]:
    """Measure one question after the other; cameras have media of their own.

    Args:
        before: the other commit
        media: their folder
        count: videos of each kind
        kinds: of the videos
        questions: that are asked
        repeats: of both, in turn
        seconds: of random frames, in each turn
    """
    common = [question for question in questions if question != "cameras"]
    tasks = [(kind, name, paths(media, kind, count)) for kind in kinds for name in common]
    if "cameras" in questions:
        index = existing_index(media, CAMERA_CLIPS, CAMERA_FRAMES)
        tasks.append(("cameras", "cameras", [index]))
    made = origin(size=SIZE, workers=CORES, repeats=repeats, seconds=seconds)
    rows: list[Comparison] = []
    with checked_out(before) as (commit, tree):
        for kind, question, files in tasks:
            turns = []
            for number in range(repeats):
                asked = request(question, files, CORES, seconds, number)
                turns.append(turn(partial(repeat, asked), tree / "src", is_odd=bool(number % 2)))
            rows.append(Comparison(question=question, kind=kind, turns=tuple(turns)))
            print(render(rows[-1]), flush=True)
        described = {"recipe": recipe(), "count": count}
        yield BeforeResult(provenance=made, media=described, before=commit, rows=tuple(rows))


def repeat(asked: Mapping[str, Any], source: Path) -> Repeat:
    """Measure a tree, which has to scan the files: its cache is empty."""
    with TemporaryDirectory() as cache:
        return Repeat(**ask_worker(asked, source=source, cache=Path(cache)))


def render(row: Comparison) -> str:
    """Return one line: ratio, range, both medians, and the machine's noise."""
    ratios = [turn.ratio for turn in row.turns]
    before = median(turn.before for turn in row.turns)
    after = median(turn.after for turn in row.turns)
    shares = [turn.others_share for turn in row.turns if turn.others_share is not None]
    others = f"; others used up to {max(shares):.0%} of the machine" if shares else ""
    return (
        f"{row.kind} {row.question}: {row.ratio:.2f} of before "
        f"({min(ratios):.2f} to {max(ratios):.2f}); {before:.0f} -> {after:.0f} per second{others}"
    )


def turn(repeat: Callable[[Path], Repeat], other: Path, *, is_odd: bool) -> Turn:
    """Measure both trees; the first one alternates between repetitions."""
    sources = [SOURCE, other] if is_odd else [other, SOURCE]
    repeats = {source: repeat(source) for source in sources}
    shares = [repeat.others_share for repeat in repeats.values() if repeat.others_share is not None]
    return Turn(
        before=repeats[other].frames_per_second,
        after=repeats[SOURCE].frames_per_second,
        others_share=max(shares, default=None),
    )


def request(
    question: str, paths: Sequence[Path], workers: int, seconds: float, number: int = 0
) -> dict[str, Any]:
    """Return the request to a worker of either tree."""
    task = task_of(paths=paths, workers=workers, **QUESTIONS[question])
    if question == "random_frames":
        task |= {"seconds": seconds, "seed": number}
    return task


@contextmanager
def checked_out(revision: str) -> Iterator[tuple[str, Path]]:
    """Yield a commit's name and a temporary folder with its `src`."""
    name = ["git", "rev-parse", "--short", f"{revision}^{{commit}}"]
    commit = subprocess.check_output(name, cwd=ROOT, text=True).strip()
    archive = BytesIO(subprocess.check_output(["git", "archive", commit, "src"], cwd=ROOT))
    with TemporaryDirectory() as folder, tarfile.open(fileobj=archive) as tar:
        tar.extractall(folder, filter="data")
        yield commit, Path(folder)


BENCHMARK = Benchmark(
    "before", __doc__, measure, lambda result: "\n".join(map(render, result.rows))
)

if __name__ == "__main__":
    BENCHMARK.main()
