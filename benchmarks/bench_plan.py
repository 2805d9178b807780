"""What does the plan of an extraction take, in time and memory, with more and more videos?

python -m benchmarks.bench_plan --hours 1     # a first look
python -m benchmarks.bench_plan               # a record that is kept, about a minute

The videos are links to one that is made of a clip again and again: all are scanned, then planned
once more when their indexes are known.
"""

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import media
from benchmarks.looped import looped
from benchmarks.record import RESULTS, Repeat, Result, origin
from benchmarks.runner import Ask, WorkerError, ask_worker
from headrace.profiling.provenance import Record

VIDEO_SECONDS = 80
"""Of each video: 8 times a clip of 10 s."""
_QUESTION = "plan_extraction"


class PlanRow(Record):
    """So many hours of video."""

    hours: float
    videos: int
    new: Repeat | None = None
    """Every video is scanned."""
    known: Repeat | None = None
    """Every index comes from disk. `memory_bytes` is the peak above what the process had before,
    `written_bytes` what the request will be as a file."""
    chunks: int = 0
    failure: str | None = None


class PlanResult(Result):
    """One row for each number of hours."""

    rows: tuple[PlanRow, ...]


def main() -> None:
    """Time, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--hours", type=float, nargs="+", default=[1, 10], help="of video")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="that scan")
    parser.add_argument("--out", type=Path, default=RESULTS / "plan.json")
    options = parser.parse_args()
    video = looped(media.paths(options.media, "web", 1)[0], 8).resolve()
    result = PlanResult(
        provenance=origin({"workers": options.workers, "hours": ",".join(map(str, options.hours))}),
        media={"recipe": media.recipe()},
        rows=tuple(planned(video, hours, options.workers) for hours in options.hours),
    )
    result.save(options.out)
    for row in result.rows:
        if row.new is None or row.known is None:
            print(f"{row.hours:g} h: {row.failure}")
            continue
        memory = (row.known.memory_bytes or 0) / 2**20
        print(
            f"{row.hours:g} h: {row.new.wall_seconds:.1f} s new, {row.known.wall_seconds:.2f} s "
            f"known, {memory:.0f} MiB"
        )
    print(options.out)


def planned(video: Path, hours: float, workers: int, ask: Ask = ask_worker) -> PlanRow:
    """Plan so many hours twice, each time in a process of its own: new videos, then known ones."""
    row = PlanRow(hours=hours, videos=round(hours * 3600 / VIDEO_SECONDS))
    with TemporaryDirectory() as folder:
        links = [Path(folder) / f"{number:06d}{video.suffix}" for number in range(row.videos)]
        for link in links:
            link.symlink_to(video)
        store = Path(folder) / "indexes"
        asked = {"question": _QUESTION, "cores": workers, "workers": workers, "store": str(store)}
        try:
            new = ask({**asked, "paths": list(map(str, links))})
            known = ask({**asked, "paths": list(map(str, links))})
        except WorkerError as error:
            return row.model_copy(update={"failure": str(error)})
    chunks = known.pop("chunks")
    new.pop("chunks")
    return row.model_copy(update={"new": Repeat(**new), "known": Repeat(**known), "chunks": chunks})


if __name__ == "__main__":
    main()
