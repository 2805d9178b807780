"""Records that tests make, and what is shown of them, held against a text file."""

from pathlib import Path

import pytest

from headrace.bench.variant_benchmark import VariantRecord, VariantRepetition
from headrace.profiling.machine import provenance
from headrace.report.benchmark_page import render_benchmark_text
from headrace.report.text import finding_lines

PAGES = Path(__file__).parent / "pages"
FAST = {"model_name": "squeezenet1_1", "batch_size": 2, "seconds": 0.01, "repeats": 1}
"""A configuration that takes a second or two."""


def made(*command, cores=4, **configuration):
    """Return where a record comes from: this machine, as if it had so many usable cores."""
    here = provenance(configuration, command)
    machine = here.machine.model_copy(update={"usable_cores": cores})
    return here.model_copy(update={"machine": machine})


def spent(seconds, *, cores=1.0, others=0.0):
    """Return the times of a repetition, as its fields; others are the cores of other programs."""
    cpu = {"cpu_seconds": cores * seconds, "others_cpu_seconds": others * seconds}
    return {"seconds": seconds, **cpu}


def recorded(seconds, kind=VariantRecord, *, others=0.0, **fields):
    """Return a record of turns that each did 100 of something, on a machine of 4 cores.

    Args:
        seconds: Variant -> the times of its turns.
        kind: Class of the record.
        others: Cores of other programs.
        fields: Further fields of the record.
    """
    turns = [
        VariantRepetition(way=name, amount=100, **spent(s, others=others))
        for name, each in seconds.items()
        for s in each
    ]
    return kind(provenance=made(), turns=tuple(turns), **fields)


def check_shown(benchmark, cases):
    """Hold `pages/NAME.txt` against what records show: the first all, the others their findings.

    Records are read from their JSON first.

    Args:
        benchmark: Whose records they are.
        cases: What a record stands for -> the record.
    """
    lines = []
    for case, record in cases.items():
        again = benchmark.record.model_validate_json(record.model_dump_json())
        page = benchmark.page(again)
        is_first = not lines
        lines += [f"# {case}", ""]
        lines += render_benchmark_text(page).splitlines() if is_first else []
        lines += [] if is_first else list(finding_lines(page.findings))
        lines += [_advice(finding) for finding in page.findings]
        lines.append("")
    check_text(benchmark.name, "\n".join(lines))


def check_text(name, text):
    """Hold `pages/NAME.txt` against a text; write the file where it is missing, and fail."""
    path = PAGES / f"{name}.txt"
    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        pytest.fail(f"{path} was missing and is written; read it, and run this again")
    assert text.splitlines() == path.read_text("utf-8").splitlines()


def _advice(finding):
    """What a program is told besides the text: the advice as a value, and what sets the pace."""
    change, bound = finding.advice, f"  Bound by: {finding.bound_by}" if finding.bound_by else ""
    if change is None:
        return f"  No advice.{bound}"
    gain = "no gain" if change.gain is None else f"gain {change.gain:.4g}"
    most = "" if change.most is None else f", at most {change.most:.4g}"
    evidence = f"; rests on: {change.evidence}" if change.evidence else ""
    options = f"; options: {dict(change.options)}" if change.options else ""
    return f"  Advice: {change.words} | {gain}{most}{evidence}{options}{bound}"
