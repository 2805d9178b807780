"""How often do camera streams decode a picture, by ranks and workers, and how fast?

python -m benchmarks.camera_media && python -m benchmarks.camera_media --num-frames 40
python -m benchmarks.bench_cameras
"""

import argparse
import sys
from pathlib import Path

from benchmarks.camera_media import index_file
from benchmarks.media import DEFAULT_ROOT
from benchmarks.record import RESULTS, command
from headrace.bench.benchmark import Context
from headrace.bench.cameras import CamerasConfig, measure_cameras


def main() -> None:
    """Measure the grid on short clips, the speed on long ones, and keep both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--media", type=Path, default=DEFAULT_ROOT, help="their folder")
    add("--clips", type=int, default=10)
    add("--short", type=int, default=40, help="frames of each clip, for the grid")
    add("--long", type=int, default=120, help="frames of each clip, for the speed")
    add("--ranks", type=int, nargs="+", default=[1, 2, 4, 8], help="of the grid")
    add("--repeats", type=int, default=5, help="for the speed")
    add("--out", type=Path, default=RESULTS, help="folder of both results")
    options = parser.parse_args()

    def made(num_frames: int) -> Path:
        path = index_file(options.media, options.clips, num_frames)
        if not path.is_file():
            words = f"--clips {options.clips} --num-frames {num_frames} --media {options.media}"
            sys.exit(f"no {path}; make it: python -m benchmarks.camera_media {words}")
        return path

    grid = CamerasConfig(
        index_file=made(options.short),
        ranks=tuple(options.ranks),
        workers=(1, 2),
        max_seconds=0,
    )
    speed = CamerasConfig(
        index_file=made(options.long),
        ways=("loader",),
        ranks=(1,),
        workers=(2,),
        repeats=options.repeats,
        max_seconds=0,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    for name, config in (("cameras", grid), ("cameras_speed", speed)):
        record = measure_cameras(config, Context(command=command(), on_progress=_say))
        path = options.out / f"{name}.json"
        path.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
        print(path)


def _say(what: str, done: int, of: int) -> None:
    print(f"{done}/{of} {what}", flush=True)


if __name__ == "__main__":
    main()
