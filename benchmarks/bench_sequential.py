"""How many frames per second does each library deliver, every frame in order, at model size?

python -m benchmarks.bench_sequential --count 8 --repeats 3    # a first look
python -m benchmarks.bench_sequential                          # the figures of the README
"""

import argparse
import os
from pathlib import Path

from benchmarks import media
from benchmarks.record import RESULTS, Row, SequentialResult, Spread, conditions
from benchmarks.runner import Workload, run

LIBRARIES = ["pyav_loop", "headrace", "spdl", "decord", "torchcodec", "opencv_linear", "opencv"]
SIZE = (256, 256)


def main() -> None:
    """Prove, time, keep, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--count", type=int, default=40, help="videos of each kind")
    parser.add_argument("--kinds", nargs="+", default=list(media.KINDS), choices=media.KINDS)
    parser.add_argument("--libraries", nargs="+", default=LIBRARIES, choices=LIBRARIES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="threads and cores")
    parser.add_argument("--out", type=Path, default=RESULTS / "sequential.json")
    options = parser.parse_args()

    sets = {kind: media.paths(options.media, kind, options.count) for kind in options.kinds}
    found = conditions(
        parameters={"size": SIZE, "workers": options.workers, "repeats": options.repeats},
        media={
            "recipe": media.recipe(),
            "kinds": {kind: media.describe(paths) for kind, paths in sets.items()},
        },
    )
    rows: list[Row] = []
    for kind, paths in sets.items():
        workload = Workload(kind=kind, paths=paths, size=SIZE, workers=options.workers)
        rows += run(options.libraries, workload, options.repeats)
    result = SequentialResult(conditions=found, rows=tuple(rows))
    result.save(options.out)
    for row in rows:
        if row.repeats:
            speed = Spread.of([each.frames_per_second for each in row.repeats])
            print(f"{row.kind} {row.library}: {speed.median:.0f} frames/s")
    print(options.out)


if __name__ == "__main__":
    main()
