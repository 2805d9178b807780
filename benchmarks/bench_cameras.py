"""How often do camera streams decode a picture, by ranks and workers, and how fast?

python -m benchmarks.camera_media && python -m benchmarks.camera_media --num-frames 40
python -m benchmarks.bench_cameras
"""

import sys
from pathlib import Path

from benchmarks.camera_media import index_file
from benchmarks.media import DEFAULT_ROOT
from benchmarks.record import RESULTS
from headrace.experiments.cameras import CamerasConfig, measure_cameras

CLIPS = 10


def main() -> None:
    """Measure the grid on short clips, the speed on long ones, and keep both."""
    short = CamerasConfig(index_file=_made(40))
    long = CamerasConfig(
        index_file=_made(120), ways=("loader",), ranks=(1,), workers=(2,), repeats=5
    )
    for name, config in (("cameras", short), ("cameras_speed", long)):
        record = measure_cameras(config, command=sys.argv, on_progress=_say)
        path = RESULTS / f"{name}.json"
        path.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
        print(path)


def _made(num_frames: int) -> Path:
    path = index_file(DEFAULT_ROOT, CLIPS, num_frames)
    if not path.is_file():
        sys.exit(f"no {path}; make it: python -m benchmarks.camera_media --num-frames {num_frames}")
    return path


def _say(what: str, done: int, of: int) -> None:
    print(f"{done}/{of} {what}", flush=True)


if __name__ == "__main__":
    main()
