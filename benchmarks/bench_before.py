"""Is this tree as fast as headrace at another commit?

python -m benchmarks.bench_before --before HEAD~1 --count 4 --repeats 3     # a first look
python -m benchmarks.bench_before --before 0d18639                          # the full run

Each repeat times this tree and the other commit in two processes, interleaved: every frame in
order, random frames, camera streams, and scans of new files. The figure is this tree's rate ÷ the
other's, median over the repeats. Both commits need the parts of headrace that the worker imports.
Random frames come in another order in each repeat, because the decoding work of a few seconds
differs by some percent between orders.
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
    """One repeat of both trees."""

    before: float
    """Frames or files per second of the other commit."""
    after: float
    """The same of this tree."""
    others_share: float | None = None
    """CPU share of other programs, the larger of both runs; None in old records."""

    @property
    def ratio(self) -> float:
        """This tree's rate ÷ the other's."""
        return self.after / self.before


class Comparison(Record):
    """One question on one kind of media."""

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
    """Commit that this tree is compared with."""


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
    """Measure each question; cameras have their own media.

    Args:
        before: commit to compare with
        media: folder of the videos
        count: videos per kind
        kinds: kinds of videos
        questions: questions to measure
        repeats: repeats of both trees, interleaved
        seconds: min seconds of random frames per repeat
    """
    common = [question for question in questions if question != "cameras"]
    tasks = [(kind, name, paths(media, kind, count)) for kind in kinds for name in common]
    if "cameras" in questions:
        index = existing_index(media, CAMERA_CLIPS, CAMERA_FRAMES)
        tasks.append(("cameras", "cameras", [index]))
    source = origin(size=SIZE, workers=CORES, repeats=repeats, seconds=seconds)
    rows: list[Comparison] = []
    with checked_out(before) as (commit, tree):
        for kind, question, files in tasks:
            turns = []
            for number in range(repeats):
                task = request(question, files, CORES, seconds, number)
                turns.append(turn(partial(repeat, task), tree / "src", is_odd=bool(number % 2)))
            rows.append(Comparison(question=question, kind=kind, turns=tuple(turns)))
            print(render(rows[-1]), flush=True)
        described = {"recipe": recipe(), "count": count}
        yield BeforeResult(provenance=source, media=described, before=commit, rows=tuple(rows))


def repeat(task: Mapping[str, Any], source: Path) -> Repeat:
    """Measure a tree with an empty cache, so that it scans the files."""
    with TemporaryDirectory() as cache:
        return Repeat(**ask_worker(task, source=source, cache=Path(cache)))


def render(row: Comparison) -> str:
    """Return a line: ratio, its range, both medians, and the CPU share of other programs."""
    ratios = [turn.ratio for turn in row.turns]
    before = median(turn.before for turn in row.turns)
    after = median(turn.after for turn in row.turns)
    shares = [turn.others_share for turn in row.turns if turn.others_share is not None]
    others = f"; other programs used up to {max(shares):.0%} of the CPU time" if shares else ""
    return (
        f"{row.kind} {row.question}: {row.ratio:.2f} of the rate before "
        f"({min(ratios):.2f} to {max(ratios):.2f}); {before:.0f} -> {after:.0f} per second{others}"
    )


def turn(repeat: Callable[[Path], Repeat], other: Path, *, is_odd: bool) -> Turn:
    """Measure both trees; the order alternates between repeats."""
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
    """Return the request for a worker of either tree."""
    task = task_of(paths=paths, workers=workers, **QUESTIONS[question])
    if question == "random_frames":
        task |= {"seconds": seconds, "seed": number}
    return task


@contextmanager
def checked_out(revision: str) -> Iterator[tuple[str, Path]]:
    """Yield the name of a commit, and a temporary folder with its `src`."""
    command = ["git", "rev-parse", "--short", f"{revision}^{{commit}}"]
    commit = subprocess.check_output(command, cwd=ROOT, text=True).strip()
    archive = BytesIO(subprocess.check_output(["git", "archive", commit, "src"], cwd=ROOT))
    with TemporaryDirectory() as folder, tarfile.open(fileobj=archive) as tar:
        tar.extractall(folder, filter="data")
        yield commit, Path(folder)


BENCHMARK = Benchmark(
    "before", __doc__, measure, lambda result: "\n".join(map(render, result.rows))
)

if __name__ == "__main__":
    BENCHMARK.main()
