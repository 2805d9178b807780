"""What measuring costs, and whether what findings predict then comes."""

from statistics import median

from benchmarks.bench_observe import WORKERS, cost
from benchmarks.bench_overhead import WAYS, OverheadResult
from benchmarks.bench_predictions import PlantedResult, PredictionsResult
from benchmarks.record import TimedResult
from benchmarks.tables.markdown import machine, machine_of, table
from headrace.profiling.findings.other_programs import QUIET

_SAID = {
    "recorded": "a run, recorded as always",
    "nvtx": "the same with NVTX ranges, nobody listening",
    "trace": "the same with every step in its trace",
}


def measuring(overhead: OverheadResult, observe: TimedResult) -> str:
    """What it adds to a step that a run is recorded, marked, traced; that a loop is observed."""
    lines = [[_SAID[way], *map(_change, overhead.ratio(way))] for way in WAYS[1:]]
    for workers in WORKERS:
        shares = cost(observe, f"num_workers={workers}")
        lines.append([f"`observe`, num_workers={workers}", *map(_change, shares)])
    bare = median(each.wall for each in overhead.rows[0].turns)
    empty = median(overhead.empty_step_seconds)
    step_ms = observe.provenance.configuration["step_ms"]
    notes = (
        f"Time of a step, where 1 is the same step unobserved: {1e3 * bare:.1f} ms of a run, "
        f"{step_ms:g} ms of a loop. A run of empty stages takes {1e6 * empty:.0f} µs a step: "
        f"{100 * empty / bare:.2g} % of this one. Medians over pairs of turns; what the least and "
        f"the most differ by is the machine. {machine(overhead)}"
    )
    return f"{table(['what', 'median', 'least', 'most'], lines)}\n\n{notes}"


def predictions(result: PredictionsResult) -> str:
    """One line per change: what its finding predicted, and what came."""
    lines = [
        [
            f"`{each.change}`",
            "nothing" if each.predicted is None else f"{each.predicted:.2f}",
            f"{median(each.measured):.2f}",
            f"{min(each.measured):.2f}–{max(each.measured):.2f}",
        ]
        for each in result.changes
    ]
    notes = (
        "Times as fast as before the change; predicted from a run, or loop, without it. "
        f"{machine(result)}"
    )
    text = f"{table(['change', 'predicted', 'measured', 'of all turns'], lines)}\n\n{notes}"
    return f"{text}\n\n{planted_loops(result.planted)}" if result.planted else text


def planted_loops(result: PlantedResult) -> str:
    """One line per planted loop: what was named, advised, predicted, and came."""
    heads = ["planted", "named", "advised with a gain", "predicted", "came", "of all turns"]
    lines = [
        [
            each.planted,
            ", ".join(each.named),
            f"`{each.applied.change}`",
            "nothing" if each.applied.predicted is None else f"{each.applied.predicted:.2f}",
            f"{median(each.applied.measured):.2f}",
            f"{min(each.applied.measured):.2f}–{max(each.applied.measured):.2f}",
        ]
        for each in result.loops
    ]
    shares = [
        share
        for each in result.loops
        for share in each.applied.others_cpu_share
        if share is not None
    ]
    notes = "Planted loops wait as for a disk or a GPU; where the step is named, the gain is all "
    notes += f"that the loader can bring. {machine_of(result.provenance)}"
    if max(shares, default=0.0) > QUIET:
        notes += f" Other programs took up to {max(shares):.0%} of the processor time meanwhile."
    return f"{table(heads, lines)}\n\n{notes}"


def _change(ratio: float) -> str:
    """`+0.3 %`."""
    return f"{100 * (ratio - 1):+.1f} %"
