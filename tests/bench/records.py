"""Records for tests, and their pages as text."""

from headrace.bench.variant_benchmark import VariantRecord, VariantRepetition
from headrace.profiling.machine import provenance
from headrace.report.benchmark_page import render_benchmark_text
from headrace.report.text import finding_lines

FAST = {"model_name": "squeezenet1_1", "batch_size": 2, "seconds": 0.01, "repeats": 1}
"""Options of a measurement of a second or two."""


def local_provenance(*command, cores=4, **configuration):
    """Return a provenance of this machine with `cores` usable cores."""
    current = provenance(configuration, command)
    machine = current.machine.model_copy(update={"usable_cores": cores})
    return current.model_copy(update={"machine": machine})


def timing(seconds, *, cores=1.0, others=0.0):
    """Return the time fields of a repetition; `others`: cores used by other programs."""
    cpu = {"cpu_seconds": cores * seconds, "others_cpu_seconds": others * seconds}
    return {"seconds": seconds, **cpu}


def recorded(seconds, kind=VariantRecord, *, others=0.0, **fields):
    """Return a record of repetitions with an amount of 100, on a machine with 4 cores.

    Args:
        seconds: Variant -> seconds of each repetition.
        kind: Class of the record.
        others: Cores used by other programs.
        fields: Further fields of the record.
    """
    turns = [
        VariantRepetition(way=name, amount=100, **timing(duration, others=others))
        for name, durations in seconds.items()
        for duration in durations
    ]
    return kind(provenance=local_provenance(), turns=tuple(turns), **fields)


def pages_text(benchmark, cases):
    """Return the page of the first record, and the findings of all, as text.

    Each record is written to JSON and read before.

    Args:
        benchmark: Benchmark of the records.
        cases: Name of the case -> record.
    """
    lines = []
    for case, record in cases.items():
        page = benchmark.page(benchmark.record.model_validate_json(record.model_dump_json()))
        text = finding_lines(page.findings) if lines else render_benchmark_text(page).splitlines()
        lines += [f"# {case}", "", *text, *map(_advice, page.findings), ""]
    return "\n".join(lines)


def _advice(finding):
    """Return the line on the advice and the bottleneck, as values."""
    change, bound = finding.advice, f"  Bound by: {finding.bound_by}" if finding.bound_by else ""
    if change is None:
        return f"  No advice.{bound}"
    gain = "no gain" if change.gain is None else f"gain {change.gain:.4g}"
    most = "" if change.most is None else f", at most {change.most:.4g}"
    evidence = f"; evidence: {change.evidence}" if change.evidence else ""
    options = f"; options: {dict(change.options)}" if change.options else ""
    return f"  Advice: {change.words} | {gain}{most}{evidence}{options}{bound}"
