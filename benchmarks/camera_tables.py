"""What `headrace bench cameras` measured, as Markdown for the README.

`cameras.json` is the whole grid, `cameras_speed.json` repeats of plain decoding and CameraLoader:

headrace bench cameras --index-file .media/cameras-10x40/index_frame.json
headrace bench cameras --index-file .media/cameras-10x120/index_frame.json \\
    --ways loader --ranks 1 --workers 2 --repeats 5
"""

from collections.abc import Callable

from benchmarks.record import Spread
from headrace.experiments.camera_ways import CameraWay
from headrace.experiments.cameras import CamerasRecord
from headrace.experiments.cameras_report import LABELS, QUOTED, CamerasRow, rows_of

_ELSEWHERE = f"{QUOTED} Those GPUs decode; above, processor cores do."


def cameras(grid: CamerasRecord, speed: CamerasRecord) -> str:
    """How often each way decodes a picture, and how fast; below, what others say of theirs."""
    rows = [row for row in rows_of(grid) if row.way != "decode"]
    decoded = _table(
        rows, "decoded ÷ delivered, ranks × workers", lambda row: f"{row.decoded_per_delivered:.2f}"
    )
    speeds = _table(
        rows, "pictures/s of all ranks together", lambda row: f"{row.frames_per_second:,.0f}"
    )
    return f"{decoded}\n\n{speeds}\n\n{_notes(grid, speed)}\n\n{_ELSEWHERE}"


def _table(rows: list[CamerasRow], head: str, value: Callable[[CamerasRow], str]) -> str:
    columns = list(dict.fromkeys((row.ranks, row.workers) for row in rows))
    found = {(row.way, row.ranks, row.workers): value(row) for row in rows}
    lines = [[head, *(f"{r} × {w}" for r, w in columns)], ["---", *["---:"] * len(columns)]]
    for way in dict.fromkeys(row.way for row in rows):
        cells = [found[way, ranks, workers] for ranks, workers in columns]
        name = LABELS[way] if way == "wandering" else f"**{LABELS[way]}**"
        lines.append([name, *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _notes(grid: CamerasRecord, speed: CamerasRecord) -> str:
    plain, loader = _rates(speed, "decode"), _rates(speed, "loader")
    share = Spread.of([ours / theirs for ours, theirs in zip(loader, plain, strict=True)])
    machine, said = grid.provenance.machine, speed.provenance.configuration
    return (
        f"One rank with {said['workers']} threads reads {Spread.of(loader).median:.0f} pictures/s, "
        f"{share.median:.2f} ({share.lowest:.2f}–{share.highest:.2f}) of decoding every file from "
        f"end to end and nothing else; median of {len(loader)} pairs (lowest–highest).\n"
        f"{grid.cameras} cameras, H.265 of 1600×900, GOP 30, no B-frames, to 256×704 RGB; "
        f"{grid.clips} clips, {grid.pictures:,} pictures above, {speed.pictures:,} for the speed; "
        f"4 clips in a batch. Ranks are processes that share {machine.usable_cores} cores; "
        f"{grid.provenance.created:%Y-%m-%d}. Not measured: GPUs, several machines."
    )


def _rates(record: CamerasRecord, way: CameraWay) -> list[float]:
    return [run.delivered / run.seconds for run in record.runs if run.way == way]
