"""What `benchmarks.bench_cameras` measured of camera streams.

`cameras.json` is the whole grid, `cameras_speed.json` repeats of plain decoding and CameraLoader.
"""

from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.tables.markdown import spread, table
from headrace.bench.camera_estimate import CameraWay
from headrace.bench.cameras import CameraRun, CamerasRecord
from headrace.bench.cameras_report import LABELS, QUOTED

_ELSEWHERE = f"{QUOTED} Those GPUs decode; above, processor cores do."


def cameras(grid: CamerasRecord, speed: CamerasRecord) -> str:
    """How often each way decodes a picture, and how fast; below, what others say of theirs."""
    decoded = _grid(
        grid,
        "amplification, ranks × workers",
        lambda runs: f"{runs[0].decoded / runs[0].delivered:.2f}",
    )
    speeds = _grid(
        grid,
        "pictures/s of all ranks together",
        lambda runs: f"{median(run.delivered / run.seconds for run in runs):,.0f}",
    )
    return f"{decoded}\n\n{speeds}\n\n{_notes(grid, speed)}\n\n{_ELSEWHERE}"


def _grid(grid: CamerasRecord, head: str, value: Callable[[Sequence[CameraRun]], str]) -> str:
    runs = [run for run in grid.runs if run.way != "decode"]
    columns = list(dict.fromkeys((run.ranks, run.workers) for run in runs))
    lines = []
    for way in dict.fromkeys(run.way for run in runs):
        name = LABELS[way] if way == "wandering" else f"**{LABELS[way]}**"
        cells = [
            value([run for run in runs if (run.way, run.ranks, run.workers) == (way, *column)])
            for column in columns
        ]
        lines.append([name, *cells])
    return table([head, *(f"{ranks} × {workers}" for ranks, workers in columns)], lines)


def _notes(grid: CamerasRecord, speed: CamerasRecord) -> str:
    plain, loader = _rates(speed, "decode"), _rates(speed, "loader")
    shares = [ours / theirs for ours, theirs in zip(loader, plain, strict=True)]
    machine, said = grid.provenance.machine, speed.provenance.configuration
    return (
        f"One rank with {said['workers']} threads reads {median(loader):.0f} pictures/s, "
        f"{spread(shares, '.2f')} of decoding every file from "
        f"end to end and nothing else; median of {len(loader)} pairs (lowest–highest).\n"
        f"{grid.cameras} cameras, H.265 of 1600×900, GOP 30, no B-frames, to 256×704 RGB; "
        f"{grid.clips} clips, {grid.pictures:,} pictures above, {speed.pictures:,} for the speed; "
        f"4 clips in a batch. Ranks are processes that share {machine.usable_cores} cores; "
        f"{grid.provenance.created:%Y-%m-%d}. Not measured: GPUs, several machines."
    )


def _rates(record: CamerasRecord, way: CameraWay) -> list[float]:
    return [run.delivered / run.seconds for run in record.runs if run.way == way]
