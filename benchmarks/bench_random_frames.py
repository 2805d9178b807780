"""How many uniformly random frames per second does each way deliver, in batches of 128?

python -m benchmarks.bench_random_frames --repeats 1 --kinds cam    # a first look
python -m benchmarks.bench_random_frames                            # the figures of the docs
"""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.comparison import Columns, by_name, comparison, difference, ratio
from benchmarks.kit import Entrant, compared
from benchmarks.markdown import machine, media, others, size, versions
from benchmarks.record import Row, TimedResult

NAMES = {
    "baseline": "DataLoader, 2 workers, PyAV: open and seek for each frame",
    "baseline_kept": "the same, files kept open",
    "baseline_clips": "DataLoader, 2 workers, PyAV: files kept open, a seek for each clip",
    "opencv": "OpenCV, captures kept, grouped by file",
    "decord": "decord, readers kept, grouped by file",
    "spdl": "SPDL, packets kept, grouped by file",
    "torchcodec": "torchcodec, decoders kept, grouped by file",
    "headrace_naive": "headrace, looking no further than now",
    "headrace_256MiB": "**headrace**, 256 MiB",
    "headrace_256MiB_yuv420": "**headrace**, 256 MiB, held as YUV 4:2:0",
    "headrace_1GiB": "**headrace**, 1 GiB",
    "headrace_bursts_256MiB": "**headrace**, `Bursts` of 8 (other samples), 256 MiB",
}
LIBRARIES = [
    Entrant(name=name, asked={"library": name})
    for name in ("opencv", "decord", "spdl", "torchcodec")
]
_HEADRACE: Mapping[str, Mapping[str, Any]] = {
    "headrace_naive": {"lookahead": 1},
    "headrace_256MiB": {"memory_budget": "256MiB"},
    "headrace_256MiB_yuv420": {"memory_budget": "256MiB", "hold": "yuv420"},
    "headrace_1GiB": {"memory_budget": "1GiB"},
}
HEADRACE = [
    Entrant(name=name, asked={"library": "headrace", **asked}) for name, asked in _HEADRACE.items()
]
BURSTS = {"library": "headrace", "frames_per_burst": 8, "memory_budget": "256MiB"}
ENTRANTS = [
    Entrant(name="baseline", asked={"library": "dataloader"}),
    Entrant(name="baseline_kept", asked={"library": "dataloader", "keeps_files": True}),
    *LIBRARIES,
    *HEADRACE,
    Entrant(name="headrace_bursts_256MiB", asked=BURSTS),
]
BENCHMARK = compared(
    "random_frames",
    __doc__,
    ENTRANTS,
    "cases:random_frames",
    seconds=8,
    asked={"batch_size": 128, "clip": None},
)
FIRST, BEST, SMALL = "baseline", "headrace_1GiB", "headrace_256MiB"
CHARTED: Mapping[str, str] = {
    FIRST: "DataLoader, PyAV, a seek per frame",
    "opencv": "OpenCV",
    "decord": "decord",
    "spdl": "SPDL",
    "torchcodec": "torchcodec",
    SMALL: "headrace, 256 MiB",
    BEST: "headrace, 1 GiB",
}
"""Entrants in the chart; the table has the others too."""


def random_access(result: TimedResult) -> str:
    """One line per way, in the order they were timed; how many times the first line each is."""
    columns = Columns(
        names=NAMES,
        name="way",
        limit=result.rows[0].name,
        ratio="times the first",
        digits=1,
        memory="memory",
        peaks=_peaks_of_one_process,
    )
    said = result.provenance.configuration
    frames, _, stride = str(said.get("clip") or "").partition(",")
    what = f"clips of {frames} frames, {stride} apart" if frames else "frames"
    notes = [
        f"Batches of {said['batch_size']} {what}, drawn uniformly: the same ones for all. Median "
        f"of {said['repeats']} interleaved rounds (lowest–highest) of at least "
        f"{said['seconds']:g} s each, every way in its own process on the same {said['workers']} "
        "cores, in a steady state: after one batch, and for headrace after as many frames as it "
        "looks ahead. *Times the first* is the median of the ratios within a round. Memory is the "
        "peak above what the process had before, without worker processes.",
        media(result),
        "Equal frames were proved first: none differs from a linear decode by more than "
        f"{difference(result):.2f} grey levels in the mean; {_exact(result)}.",
        f"{others(result.rows)} {machine(result)}",
        versions(result.rows),
        "Not measured: the first frames, until the look-ahead is filled; files that are not in "
        "the page cache; a model that computes beside the decoders.",
    ]
    return "\n\n".join([comparison(by_name(result), columns), "\n".join(notes)])


def headline(result: TimedResult, many: TimedResult | None, chart: str) -> str:
    """How many times as fast, the chart, on what it was measured, and where less is won.

    Raises:
        ValueError: one of the ways it names was not timed.
    """
    kinds = list(result.media["kinds"])
    about, said = result.media["kinds"][kinds[0]], result.provenance.configuration
    height, width = result.media["recipe"]["size"]
    measured = (
        f"Batches of {said['batch_size']} uniformly random frames of {about['videos']} videos, "
        f"H.264, {width}×{height} to {size(result)}, on {said['workers']} cores, once the "
        "look-ahead is filled:"
    )
    return "\n\n".join(
        [
            f"**Random frames, each the exact one, at {_times(result, BEST, kinds[0])} times the "
            "speed of a DataLoader that seeks for each of them.**",
            chart,
            measured,
            "\n".join([*(_summary(result, kind) for kind in kinds), *_won_less(many)]),
        ]
    )


def _peaks_of_one_process(row: Row) -> Sequence[float]:
    """Nothing of a DataLoader, whose memory is spread over its workers."""
    if row.name.startswith("baseline"):
        return []
    return [each.memory_bytes or 0 for each in row.repeats]


def _exact(result: TimedResult) -> str:
    """Which ways gave the very pixels of the linear decode."""
    differs = {r.name for r in result.rows if r.equality and r.equality.max_mean_difference}
    ours = dict.fromkeys(r.name for r in result.rows if r.name.startswith("headrace"))
    exact = [NAMES.get(name, name).replace("**", "") for name in ours if name not in differs]
    return f"by none: {'; '.join(exact)}" if exact else "all differ"


def _summary(result: TimedResult, kind: str) -> str:
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


if __name__ == "__main__":
    BENCHMARK.main()
