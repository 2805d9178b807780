"""Does a run keep up with reading its frames, where the model does nothing?

python -m benchmarks.bench_run --count 2 --repeats 3    # a first look
python -m benchmarks.bench_run                          # a record that is kept

`read_frames` gives every frame as large as it is; `run` takes the same frames through the stages of
`headrace run`, with a model and a preprocessing that do nothing; `run_prepared` preprocesses them
for a model of 224x224, which takes the cores that decode. All see the same frames, bit for bit:
clips of 10 s, each read anew, and one of 80 s.
"""

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import media
from benchmarks.equality import Equality
from benchmarks.looped import looped
from benchmarks.record import RESULTS, Row, TimedResult, origin
from benchmarks.runner import Entrant, Task, ask_worker, rounds

ENTRANTS = [
    Entrant(name="read_frames", asked={"way": "read_frames", "preprocesses": False}),
    Entrant(name="run", asked={"way": "run", "preprocesses": False}),
    Entrant(name="run_prepared", asked={"way": "run", "preprocesses": True}),
]

TIMES = 8
"""That a clip is repeated in the longer video."""


def main() -> None:
    """Prove, time, keep, print each run's share of the speed of reading."""
    options = _parser().parse_args()
    parameters = {"workers": options.workers, "repeats": options.repeats}
    result = TimedResult(provenance=origin(parameters), media={"recipe": media.recipe()})
    names = [each.name for each in ENTRANTS]
    clips = {kind: media.paths(options.media, kind, options.count) for kind in media.KINDS}
    longer = {f"{kind}_x{TIMES}": [looped(paths[0], TIMES)] for kind, paths in clips.items()}
    for kind, paths in (clips | longer).items():
        task = Task(
            question="run_frames", kind=kind, paths=paths, size=(0, 0), workers=options.workers
        )
        rows = [_proved(each, task) for each in ENTRANTS]
        if not all(row.is_sound for row in rows):
            sys.exit(f"not the same frames: {rows}")
        for timed in rounds(rows, ENTRANTS, task, options.repeats):
            result = result.updated(timed, names)
            result.save(options.out)
        reading = result.row("read_frames", kind)
        for name in names:
            row = result.row(name, kind)
            if row is not None and reading is not None:
                print(f"{kind} {name}: {row.speed:.0f} frames/s, {row.speed / reading.speed:.2f}")
    print(options.out)


def _proved(entrant: Entrant, task: Task) -> Row:
    """Return a row without repeats: are its frames those of reading, bit for bit?"""
    with TemporaryDirectory() as folder:
        place = Path(folder) / "sums.npz"
        found = {}
        for each in (ENTRANTS[0], entrant):
            versions = ask_worker(task.request(each.asked, place))["versions"]
            with np.load(place) as stored:
                found[each.name] = stored["sums"]
    expected, sums = found["read_frames"], found[entrant.name]
    count = min(len(expected), len(sums))
    return Row(
        name=entrant.name,
        kind=task.kind,
        versions=versions,
        equality=Equality(
            frames=len(expected),
            missing=abs(len(expected) - len(sums)),
            wrong=int((expected[:count] != sums[:count]).sum()),
            max_mean_difference=0.0,
        ),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--media", type=Path, default=media.DEFAULT_ROOT, help="their folder")
    parser.add_argument("--count", type=int, default=4, help="videos of each kind")
    parser.add_argument("--repeats", type=int, default=5, help="of each, in turn")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="threads and cores")
    parser.add_argument("--out", type=Path, default=RESULTS / "run.json")
    return parser


if __name__ == "__main__":
    main()
