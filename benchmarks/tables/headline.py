"""What the README says first: random frames, beside the stock way to them."""

from collections.abc import Mapping

from benchmarks.record import Row, TimedResult
from benchmarks.tables.compared import ratio
from benchmarks.tables.markdown import size

FIRST, BEST, SMALL = "baseline", "headrace_1GiB", "headrace_256MiB"
SHOWN: Mapping[str, str] = {
    FIRST: "DataLoader, PyAV, a seek per frame",
    "opencv": "OpenCV",
    "decord": "decord",
    "spdl": "SPDL",
    "torchcodec": "torchcodec",
    SMALL: "headrace, 256 MiB",
    BEST: "headrace, 1 GiB",
}
"""Ways in the chart; the table has the others too."""


def headline(result: TimedResult, many: TimedResult | None, chart: str) -> str:
    """How many times as fast, the chart, on what it was measured, and where less is won.

    Raises:
        ValueError: one of the ways it tells of was not timed.
    """
    kinds = list(result.media["kinds"])
    about, said = result.media["kinds"][kinds[0]], result.provenance.configuration
    height, width = result.media["recipe"]["size"]
    times = _times(result, BEST, kinds[0])
    measured = (
        f"Batches of {said['batch_size']} uniformly random frames of {about['videos']} videos, "
        f"H.264, {width}×{height} to {size(result)}, on {said['workers']} cores, once the "
        "look-ahead is filled:"
    )
    return "\n\n".join(
        [
            f"**Random frames, each the exact one, at {times} times the speed of a DataLoader that "
            "seeks for each of them.**",
            chart,
            measured,
            "\n".join([*(_told(result, kind) for kind in kinds), *_won_less(many)]),
        ]
    )


def _told(result: TimedResult, kind: str) -> str:
    about = result.media["kinds"][kind]
    best, small, first = (_row(result, name, kind).speed for name in (BEST, SMALL, FIRST))
    return (
        f"- *{kind}* (mean GOP {about['mean_gop']:.0f}, {about['b_frame_share']:.0%} B-frames): "
        f"{best:,.0f} frames/s within 1 GiB, {_times(result, BEST, kind)} times the DataLoader's "
        f"{first:,.0f}; {small:,.0f} within 256 MiB, {_times(result, SMALL, kind)} times."
    )


def _won_less(many: TimedResult | None) -> list[str]:
    """A line on the smallest set whose look-ahead was not filled in time."""
    for row in many.rows if many else ():
        for found in row.repeats:
            if many and not found.is_filled:
                said = many.provenance.configuration
                return [
                    f"- {row.kind} within {said['memory_budget']}: {found.frames_per_second:,.0f} "
                    f"frames/s after {said['warm_up_seconds']:g} s, the look-ahead still being "
                    "filled."
                ]
    return []


def _row(result: TimedResult, name: str, kind: str) -> Row:
    row = result.row(name, kind)
    if row is None or not row.repeats:
        raise ValueError(f"the README tells of {name} on {kind}, which was not timed")
    return row


def _times(result: TimedResult, name: str, kind: str) -> str:
    found = ratio(_row(result, name, kind), _row(result, FIRST, kind))
    if found is None:
        raise ValueError(f"{name} and {FIRST} were not timed equally often on {kind}")
    return f"{found:.0f}" if found >= 10 else f"{found:.1f}"
