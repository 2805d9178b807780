"""A survey as one page of HTML and as text: what was found, the costliest first."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Final

from headrace.profiling.findings.finding import Finding
from headrace.profiling.provenance import Provenance
from headrace.report.drawing import Chart
from headrace.report.experiment import ExperimentPage
from headrace.report.page import render_page
from headrace.report.text import configuration_rows, machine_rows, printable

_PAGE: Final = "survey.html.j2"
_WIDTH: Final = 80


@dataclass(frozen=True, kw_only=True)
class SurveyLine:
    """One experiment on the first page."""

    name: str
    gain: str
    """`1.80 times`, `none shown`."""
    words: str
    """What to change, or its answer, or why there is none."""
    more: tuple[str, ...] = ()
    """Sentences below."""
    has_chapter: bool = True
    """Whether there is more of it below."""


@dataclass(frozen=True, kw_only=True)
class SurveyGroup:
    """Lines of one standing."""

    title: str
    reading: str
    lines: tuple[SurveyLine, ...]


@dataclass(frozen=True, kw_only=True)
class SurveyChapter:
    """What one experiment shows."""

    name: str
    page: ExperimentPage
    made: str
    """When it was measured, and how long that took."""
    alone: tuple[str, ...]
    """The command that measures the same alone."""

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Its charts, by names that no other chapter has."""
        return tuple(replace(chart, name=f"{self.name}-{chart.name}") for chart in self.page.charts)


@dataclass(frozen=True, kw_only=True)
class SurveyPage:
    """What a survey found, and what it was found with."""

    title: str
    verdict: Finding
    groups: tuple[SurveyGroup, ...]
    chapters: tuple[SurveyChapter, ...]
    """In the order of the lines."""
    provenance: Provenance
    """Of the first chapter, or of the survey itself where there is none."""
    differing: tuple[tuple[str, str], ...]
    """In what the records of chapters differ from that, in words: chapter and what."""
    command: tuple[str, ...]
    """The command line of the survey."""


def render_survey(page: SurveyPage) -> str:
    """The page: verdict, findings, a chapter for each experiment, provenance once.

    Costs and keeps to itself as `render_page` says.
    """
    made = page.provenance
    chapters = [
        (
            chapter,
            chapter.charts,
            shlex.join(chapter.alone),
            configuration_rows(chapter.page.provenance.configuration),
        )
        for chapter in page.chapters
    ]
    return render_page(
        _PAGE,
        tuple(chart for chapter in page.chapters for chart in chapter.charts),
        survey=page,
        chapters=chapters,
        command=shlex.join(page.command),
        created=made.created,
        usable_cores=made.machine.usable_cores,
        machine=machine_rows(made.machine),
        versions=[("headrace", f"{made.headrace}, commit {made.commit or 'not known'}")]
        + [(name, version) for name, version in made.versions.items() if name != "headrace"],
    )


def render_survey_text(page: SurveyPage) -> str:
    """The first page for a console, 80 columns wide; ends in a newline."""
    verdict = page.verdict
    lines = [*wrap(page.title, _WIDTH), "", *wrap(verdict.headline, _WIDTH)]
    for sentence in verdict.evidence:
        lines += wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    for group in page.groups:
        lines += ["", *wrap(group.title, _WIDTH), *_group(group.lines)]
    return "\n".join(map(printable, lines)).rstrip() + "\n"


def _group(lines: Sequence[SurveyLine]) -> Iterator[str]:
    name = max(len(line.name) for line in lines)
    gain = max(len(line.gain) for line in lines)
    indent = " " * (name + gain + 6)
    for line in lines:
        first = f"  {line.name.ljust(name)}  {line.gain.ljust(gain)}  "
        yield from wrap(line.words, _WIDTH, initial_indent=first, subsequent_indent=indent)
        for sentence in line.more:
            yield from wrap(sentence, _WIDTH, initial_indent=indent, subsequent_indent=indent)
