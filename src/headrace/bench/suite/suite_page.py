"""Report of a suite as HTML, text and JSON, the largest gain first; a function of the ranking."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePath
from textwrap import wrap
from typing import Any, Final

from headrace.atomic_file import write_whole
from headrace.bench.suite.ranking import RankedBenchmark, Standing, SuiteRanking, verdict
from headrace.bench.suite.suite_selection import SuiteRecord
from headrace.profiling.environment_diff import machine_differences
from headrace.profiling.provenance import Provenance
from headrace.report.page import render_page
from headrace.report.text import configuration_rows, machine_rows, printable

PAGE: Final = "all.html"
_WIDTH: Final = 80
_GROUPS: Final[dict[Standing, tuple[str, str]]] = {
    "gain": (
        "Gains of the whole run",
        "Speedup of the whole run, largest first; for a gain of one stage, predicted from the work "
        "of all stages. Each was measured alone: gains of several lines do not multiply.",
    ),
    "part": (
        "Gains of one part",
        "Speedup of this part. Its effect on your own loop depends on what the loop waits for: see "
        "headrace profile -- python train.py.",
    ),
    "none": (
        "No gain shown",
        "No variant is clearly faster, or the benchmark does not measure a gain.",
    ),
    "unsure": (
        "No verdict",
        "Other programs ran, or repetitions vary too much.",
    ),
    "missing": ("Not measured", "The reasons."),
}

Group = tuple[str, str, list[RankedBenchmark]]
"""Title, explanation, and benchmarks of one standing."""


def render_suite(ranking: SuiteRanking) -> str:
    """Return the page: verdict, findings, a section per benchmark, provenance once.

    Cost and privacy: see `render_page`.
    """
    provenance, sections = _provenance(ranking), []
    for ranked in ranking.ranked:
        if ranked.page is not None:
            options = configuration_rows(ranked.page.provenance.configuration)
            sections.append((ranked, ranked.charts, shlex.join(ranked.result.alone), options))
    return render_page(
        "suite.html.j2",
        tuple(chart for _, charts, _, _ in sections for chart in charts),
        title=_title(ranking.record),
        verdict=verdict(ranking),
        groups=list(_groups(ranking)),
        sections=sections,
        differing=differing(ranking),
        command=shlex.join(ranking.record.provenance.command),
        created=provenance.created,
        usable_cores=provenance.machine.usable_cores,
        machine=machine_rows(provenance.machine),
        versions=[("headrace", f"{provenance.headrace}, commit {provenance.commit or 'unknown'}")]
        + [(name, version) for name, version in provenance.versions.items() if name != "headrace"],
    )


def render_suite_text(ranking: SuiteRanking) -> str:
    """Return the first page as text, 80 columns wide; ends in a newline."""
    finding = verdict(ranking)
    lines = [*wrap(_title(ranking.record), _WIDTH), "", *wrap(finding.headline, _WIDTH)]
    for sentence in finding.evidence:
        lines += wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    for title, _, rows in _groups(ranking):
        lines += ["", *wrap(title, _WIDTH), *_aligned_rows(rows)]
    return "\n".join(map(printable, lines)).rstrip() + "\n"


def _aligned_rows(rows: list[RankedBenchmark]) -> Iterator[str]:
    name_width = max(len(ranked.name) for ranked in rows)
    gain_width = max(len(ranked.gain_words) for ranked in rows)
    indent = " " * (name_width + gain_width + 6)
    for ranked in rows:
        first = f"  {ranked.name.ljust(name_width)}  {ranked.gain_words.ljust(gain_width)}  "
        yield from wrap(ranked.words, _WIDTH, initial_indent=first, subsequent_indent=indent)
        for sentence in ranked.more:
            yield from wrap(sentence, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _groups(ranking: SuiteRanking) -> Iterator[Group]:
    for standing, (title, reading) in _GROUPS.items():
        if rows := [r for r in ranking.of(standing) if r.result.outcome != "left out"]:
            yield title, reading, rows


def _title(record: SuiteRecord) -> str:
    first, *others = [PurePath(video).name for video in record.videos] or ["no video"]
    more = f" and {len(others)} more" if others else ""
    options = record.provenance.configuration
    model = [str(options[name]) for name in ("model_name", "device") if name in options]
    return f"Measured gains: {', '.join([first + more, ' on '.join(model)]).rstrip(', ')}"


def _provenance(ranking: SuiteRanking) -> Provenance:
    """Return the provenance of the first benchmark, else of the suite."""
    pages = [ranked.page for ranked in ranking.ranked if ranked.page is not None]
    return pages[0].provenance if pages else ranking.record.provenance


def differing(ranking: SuiteRanking) -> list[tuple[str, str]]:
    """Return environment differences from the first benchmark: name and text."""
    first, rows = _provenance(ranking), []
    for ranked in ranking.ranked:
        differences = machine_differences(first, ranked.page.provenance) if ranked.page else ()
        texts = [f"{field.name} {field.other}, not {field.first}" for field in differences]
        if texts:
            rows.append((ranked.name, "; ".join(texts)))
    return rows


def suite_json(ranking: SuiteRanking, folder: Path, files: dict[str, Path]) -> str:
    """Return the findings, the largest gain first, and the paths in `folder`."""
    finding, work = verdict(ranking), ranking.work
    document = {
        "verdict": finding.headline,
        "evidence": list(finding.evidence),
        "work_ms": {role: stage.ms for role, stage in work.stages.items()} if work else None,
        "findings": [_finding(ranked, folder) for ranked in ranking.ranked],
        "files": {name: str(path) for name, path in files.items()},
    }
    return json.dumps(document)


def _finding(ranked: RankedBenchmark, folder: Path) -> dict[str, Any]:
    result, advice, finding = ranked.result, ranked.advice, ranked.finding
    facts: dict[str, Any] = {
        "experiment": ranked.name,
        "outcome": result.outcome,
        "why": result.why,
        "standing": ranked.standing,
        "is_taken": result.is_taken,
    }
    if finding is None:
        return facts
    return facts | {
        "headline": finding.headline,
        "evidence": list(finding.evidence),
        "change": finding.change,
        "advice": None if advice is None else advice.words,
        "options": {} if advice is None else dict(advice.options),
        "concerns": ranked.concerns or "whole",
        "gain": ranked.gain,
        "gain_of_whole": ranked.gain_of_whole,
        "gain_of_whole_in_turn": None if ranked.whole is None else ranked.whole.in_turn,
        "numbers": str(folder / f"{ranked.name}.json"),
        "table": str(folder / f"{ranked.name}.csv"),
        "page": str(folder / f"{ranked.name}.html"),
    }


def write_page(ranking: SuiteRanking, folder: Path) -> Path:
    """Write the page into `folder`; return its path.

    Raises:
        ConfigError: the page cannot be written.
    """
    write_whole(folder / PAGE, render_suite(ranking))
    return folder / PAGE
