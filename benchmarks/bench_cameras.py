"""How many frames do camera streams decode per delivered frame, by ranks and workers? How fast?

python -m benchmarks.camera_media && python -m benchmarks.camera_media --num-frames 40
python -m benchmarks.bench_cameras

Writes two results: `cameras.json` has every combination of ranks and workers, `cameras_speed.json`
repeats of plain decoding and of CameraLoader.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.camera_media import existing_index
from benchmarks.command_line import call
from benchmarks.markdown import spread, table
from benchmarks.media import DEFAULT_ROOT
from benchmarks.record import RESULTS, command
from headrace.bench.benchmark import Context
from headrace.bench.camera_epochs import measure_cameras
from headrace.bench.cameras import QUOTED, CameraRun, CamerasConfig, CamerasRecord

VARIANTS = {
    "loader": "**CameraLoader**",
    "dataset": "**DataLoader**, each clip stays with one worker",
    "wandering": "DataLoader, clips move from worker to worker",
}


def main(
    *,
    media: Path = DEFAULT_ROOT,
    clips: int = 10,
    short: int = 40,
    long: int = 120,
    ranks: tuple[int, ...] = (1, 2, 4, 8),
    repeats: int = 5,
    out: Path = RESULTS,
) -> None:
    """Measure the combinations on short clips and the speed on long ones; save both results.

    Args:
        media: folder of the clips
        clips: clips, each with six cameras
        short: frames per clip for the combinations
        long: frames per clip for the speed
        ranks: numbers of ranks to combine
        repeats: repeats for the speed
        out: folder of both results
    """
    short_set, long_set = (existing_index(media, clips, frames) for frames in (short, long))
    grid = CamerasConfig(index_file=short_set, ranks=ranks, workers=(1, 2), max_seconds=0)
    single = replace(grid, index_file=long_set, ways=("loader",), ranks=(1,), workers=(2,))
    speed = replace(single, repeats=repeats)
    out.mkdir(parents=True, exist_ok=True)
    for name, config in (("cameras", grid), ("cameras_speed", speed)):
        record = measure_cameras(config, Context(command=command(), on_progress=_progress))
        path = out / f"{name}.json"
        path.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
        print(path)


def cameras(grid: CamerasRecord, speed: CamerasRecord) -> str:
    """Return amplification and rate of each variant, then published figures of NVIDIA's example."""

    def rates(runs: Sequence[CameraRun]) -> list[float]:
        return [run.delivered / run.seconds for run in runs]

    def amplification(runs: Sequence[CameraRun]) -> str:
        return f"{runs[0].decoded / runs[0].delivered:.2f}"

    decoded = _grid(grid, "amplification, ranks × workers", amplification)
    speeds = _grid(
        grid, "frames/s of all ranks, ranks × workers", lambda runs: f"{median(rates(runs)):,.0f}"
    )
    plain, loader = (
        rates([run for run in speed.runs if run.way == way]) for way in ("decode", "loader")
    )
    shares = [ours / limit for ours, limit in zip(loader, plain, strict=True)]
    cores, workers = grid.provenance.machine.usable_cores, speed.provenance.configuration["workers"]
    notes = (
        f"With one rank and {workers} threads, `CameraLoader` delivers {median(loader):.0f} "
        f"frames/s: {spread(shares, '.2f')} of the rate of decoding every file from end to end and "
        f"nothing else, median (min–max) of {len(loader)} pairs.\n"
        f"{grid.cameras} cameras, H.265, 1600×900, GOP 30, no B-frames, to 256×704 RGB; "
        f"{grid.clips} clips; {grid.pictures:,} frames for the tables, {speed.pictures:,} for the "
        f"comparison with plain decoding; batches of 4 clips. Ranks are processes that share "
        f"{cores} cores; {grid.provenance.created:%Y-%m-%d}. Not measured: GPUs, several machines."
    )
    published = f"{QUOTED} These GPUs decode; in the tables above, CPU cores decode."
    return "\n\n".join([decoded, speeds, notes, published])


def _progress(what: str, done: int, of: int) -> None:
    print(f"{done}/{of} {what}", flush=True)


def _grid(grid: CamerasRecord, head: str, value: Callable[[Sequence[CameraRun]], str]) -> str:
    runs = [run for run in grid.runs if run.way != "decode"]
    columns = list(dict.fromkeys((run.ranks, run.workers) for run in runs))
    lines = []
    for way in dict.fromkeys(run.way for run in runs):
        cells = [
            value([run for run in runs if (run.way, run.ranks, run.workers) == (way, *column)])
            for column in columns
        ]
        lines.append([VARIANTS[way], *cells])
    return table([head, *(f"{ranks} × {workers}" for ranks, workers in columns)], lines)


if __name__ == "__main__":
    call(main, __doc__)
