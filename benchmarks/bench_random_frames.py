"""How many uniformly random frames per second does each variant deliver, in batches of 128?

python -m benchmarks.bench_random_frames --repeats 1 --kinds cam    # a first look
python -m benchmarks.bench_random_frames                            # the full run
"""

from collections.abc import Mapping
from statistics import median

from benchmarks.kit import Entrants, contest
from benchmarks.markdown import budget, by_name, comparison, size
from benchmarks.record import Row, TimedResult, ratios

NAMES = {
    "baseline": "DataLoader, 2 workers, PyAV: open and seek for each frame",
    "baseline_kept": "the same, files stay open",
    "baseline_clips": "DataLoader, 2 workers, PyAV: files stay open, a seek for each clip",
    "opencv": "OpenCV, open captures, grouped by file",
    "decord": "decord, open readers, grouped by file",
    "spdl": "SPDL, packets in memory, grouped by file",
    "torchcodec": "torchcodec, open decoders, grouped by file",
    "headrace_naive": "headrace, no lookahead",
    "headrace_256MiB": "**headrace**, 256 MiB",
    "headrace_256MiB_rgb": "headrace, 256 MiB, frames held as RGB",
    "headrace_256MiB_yuv420": "**headrace**, 256 MiB, frames held as YUV 4:2:0",
    "headrace_1GiB": "**headrace**, 1 GiB",
    "headrace_1GiB_rgb": "headrace, 1 GiB, frames held as RGB",
    "headrace_bursts_256MiB": "**headrace**, `Bursts` of 8 (other samples), 256 MiB",
}
_SMALL = {"library": "headrace", "memory_budget": "256MiB"}
KEPT = {"library": "dataloader", "keeps_files": True}
OTHERS: Entrants = {
    **{name: {"library": name} for name in ("opencv", "decord", "spdl", "torchcodec")},
    "headrace_naive": {"library": "headrace", "lookahead": 1},
    "headrace_256MiB": _SMALL,
    "headrace_256MiB_rgb": {**_SMALL, "hold": "rgb"},
    "headrace_256MiB_yuv420": {**_SMALL, "hold": "yuv420"},
    "headrace_1GiB": {"library": "headrace", "memory_budget": "1GiB"},
    "headrace_1GiB_rgb": {"library": "headrace", "memory_budget": "1GiB", "hold": "rgb"},
}
"""Entrants for both frames and clips."""
ENTRANTS: Entrants = {
    "baseline": {"library": "dataloader"},
    "baseline_kept": KEPT,
    **OTHERS,
    "headrace_bursts_256MiB": {**_SMALL, "frames_per_burst": 8},
}
CLIPS: Entrants = {"baseline_clips": KEPT, **OTHERS}
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
"""Entrants in the chart; the table has all entrants."""


def random_access(result: TimedResult) -> str:
    """Return a line per variant, in timing order, with the speedup over the first."""
    parameters = result.provenance.configuration
    frames, _, stride = str(parameters.get("clip") or "").partition(",")
    samples = f"random clips of {frames} frames with stride {stride}" if frames else "random frames"
    return comparison(
        result,
        by_name(result),
        NAMES,
        limit=result.rows[0].name,
        heads=("variant", "speedup", "memory"),
        digits=1,
        # A DataLoader's memory is spread over its workers.
        peaks=lambda row: row.values("memory_bytes") * (not row.name.startswith("baseline")),
        rounds=f"Batches of {parameters['batch_size']} uniformly {samples}, the same for all "
        f"variants. Median (min–max) of {parameters['repeats']} interleaved rounds of at least "
        f"{parameters['seconds']:g} s. Each variant runs in its own process on the same "
        f"{parameters['workers']} cores. Timing starts after one batch; for headrace, after as "
        "many frames as its lookahead. *Speedup*: ratio to the first row, median over the rounds. "
        "*Memory*: peak RSS minus RSS at the start, without worker processes.",
        reference="a linear decode",
        exact=_exact(result),
        unmeasured="the first frames, before the lookahead is full; files outside the page cache; "
        "decoding while a model computes",
    )


def headline(result: TimedResult, many: TimedResult | None, chart: str) -> str:
    """Return the speedup, the chart, the conditions, and the case with the smaller gain.

    Raises:
        ValueError: a required variant was not timed.
    """
    kinds = list(result.media["kinds"])
    about, parameters = result.media["kinds"][kinds[0]], result.provenance.configuration
    height, width = result.media["recipe"]["size"]
    conditions = (
        f"Batches of {parameters['batch_size']} uniformly random frames of {about['videos']} "
        f"videos, H.264, {width}×{height} to {size(result)}, on {parameters['workers']} cores, "
        "once the lookahead is full; speeds and speedups are medians over the rounds, each for "
        "itself:"
    )
    return "\n\n".join(
        [
            f"**Exact random frames, at {_times(result, BEST, kinds[0])} times the speed of a "
            "DataLoader that seeks for each frame.**",
            chart,
            conditions,
            "\n".join([*(_summary(result, kind) for kind in kinds), *_won_less(many)]),
        ]
    )


def _exact(result: TimedResult) -> str:
    """Return the end of the sentence on equal frames: headrace's variants without a difference."""
    differing = {r.name for r in result.rows if r.equality and r.equality.max_mean_difference}
    ours = dict.fromkeys(r.name for r in result.rows if r.name.startswith("headrace"))
    exact = [NAMES.get(name, name).replace("**", "") for name in ours if name not in differing]
    return f", and 0 for: {'; '.join(exact)}" if exact else ""


def _summary(result: TimedResult, kind: str) -> str:
    about = result.media["kinds"][kind]
    best, small, first = (_row(result, name, kind).speed for name in (BEST, SMALL, FIRST))
    return (
        f"- *{kind}* (mean GOP {about['mean_gop']:.0f}, {about['b_frame_share']:.0%} B-frames): "
        f"{best:,.0f} frames/s within 1 GiB, {_times(result, BEST, kind)} times the DataLoader's "
        f"{first:,.0f}; {small:,.0f} within 256 MiB, {_times(result, SMALL, kind)} times."
    )


def _won_less(many: TimedResult | None) -> list[str]:
    """Return a line on the slowest set whose lookahead was not full when timing began."""
    rows = [row for row in many.rows if row.repeats] if many else []
    unfilled = [row for row in rows if row.name == "headrace" and not row.repeats[0].is_filled]
    if many is None or not unfilled:
        return []
    parameters, slowest = many.provenance.configuration, min(unfilled, key=lambda row: row.speed)
    with_disk = [
        f"{row.speed:,.0f} in the {row.name.rpartition(', ')[2]}"
        for row in rows
        if row.kind == slowest.kind and row is not slowest
    ]
    spilled = f"; with `spill`, {' and '.join(with_disk)}" if with_disk else ""
    return [
        f"- {slowest.kind} within {budget(many)}: {slowest.speed:,.0f} frames/s "
        f"after {parameters['warm_up_seconds']:g} s, before the lookahead is full{spilled}."
    ]


def _row(result: TimedResult, name: str, kind: str) -> Row:
    row = result.row(name, kind)
    if row is None or not row.repeats:
        raise ValueError(f"the README needs {name} on {kind}, which was not timed")
    return row


def _times(result: TimedResult, name: str, kind: str) -> str:
    row, first = (_row(result, variant, kind) for variant in (name, FIRST))
    shares = ratios(row, first, "frames_per_second")
    if not shares:
        raise ValueError(f"{name} and {FIRST} have different numbers of repeats on {kind}")
    return f"{median(shares):.0f}" if median(shares) >= 10 else f"{median(shares):.1f}"


BENCHMARK = contest(
    "random_frames", __doc__, ENTRANTS, "cases:random_frames", random_access, batch_size=128
)

if __name__ == "__main__":
    BENCHMARK.main()
