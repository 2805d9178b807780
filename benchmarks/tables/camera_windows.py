"""What `benchmarks.bench_camera_windows` measured of windows drawn at random."""

from collections.abc import Mapping
from statistics import median

from benchmarks.record import Row, TimedResult
from benchmarks.tables.markdown import machine, others, spread, table

WAYS = {
    "naive": "each frame from its keyframe, as NVIDIA's random-access example does",
    "window": "each window by itself, its frames of one GOP together",
    "headrace": "**CameraWindowLoader**",
    "headrace yuv420": "**CameraWindowLoader**, held as YUV 4:2:0",
    "bare": "PyAV decodes files from end to end, and delivers nothing",
}


def camera_windows(result: TimedResult) -> str:
    """One line per way, held against the naive one turn by turn."""
    rows = {row.name: row for row in result.rows}
    lines = [
        [
            words,
            spread([each.frames_per_second for each in rows[name].repeats], ",.0f"),
            spread(_shares(rows, name), ".1f"),
            f"{median((each.decoded or 0) / each.frames for each in rows[name].repeats):.2f}",
        ]
        for name, words in WAYS.items()
    ]
    said = result.provenance.configuration
    notes = [
        f"Median of {said['repeats']} interleaved turns of {said['seconds']:.0f} s "
        f"(lowest–highest), two threads, {said['memory_budget']} held; windows of 8 moments × 6 "
        "cameras at 2 Hz, drawn uniformly.",
        f"{len(result.media['frames'])} clips of 6 cameras, {result.media['frames'][0]} frames "
        "each at 12 Hz, H.265 of 1600×900, GOP 30, no B-frames, to 256×704 RGB.",
        "Equal pixels were proved first for the first three ways.",
        f"{others(result.rows)} {machine(result)}",
    ]
    heads = ["way", "frames/s", "÷ naive", "decoded ÷ delivered"]
    return f"{table(heads, lines)}\n\n" + "\n".join(notes)


def _shares(rows: Mapping[str, Row], name: str) -> list[float]:
    return [
        ours.frames_per_second / naive.frames_per_second
        for ours, naive in zip(rows[name].repeats, rows["naive"].repeats, strict=True)
    ]
