"""The report of a suite, as a page, as JSON and as a file. Pure but for the file."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

from headrace.bench.suite.ranking import (
    RankedBenchmark,
    Standing,
    SuiteRanking,
    rank,
    times_words,
    verdict,
)
from headrace.bench.suite.suite_record import SuiteRecord
from headrace.bench.suite.suite_selection import Registered
from headrace.profiling.comparison.environment_diff import surroundings
from headrace.profiling.number_format import seconds
from headrace.profiling.provenance import Provenance
from headrace.report.survey import SurveyChapter, SurveyGroup, SurveyLine, SurveyPage, render_survey
from headrace.text_file import write_whole

_GROUPS: Final[dict[Standing, tuple[str, str]]] = {
    "gain": (
        "What makes the whole faster",
        "How many times as fast the whole would be, the largest gain first; where a gain is that "
        "of one stage, as predicted from the work of all stages. Each was measured alone: gains of "
        "several lines do not multiply.",
    ),
    "part": (
        "What makes a part faster",
        "How many times as fast that part would be. What of it reaches your own loop depends on "
        "what that waits for: headrace watch -- python train.py tells.",
    ),
    "none": (
        "No gain shown",
        "Nothing that was tried is clearly faster, or the figures tell something else than a gain.",
    ),
    "unsure": (
        "Too uncertain to say",
        "Other programs ran meanwhile, or turns of one kind differ too much.",
    ),
    "missing": ("Not measured", "Why there is no answer."),
}


def suite_page(ranking: SuiteRanking) -> SurveyPage:
    """Return the report of a suite."""
    record = ranking.record
    chapters = tuple(_chapters(ranking))
    made = chapters[0].page.provenance if chapters else record.provenance
    return SurveyPage(
        title=_title(record),
        verdict=verdict(ranking),
        groups=tuple(
            SurveyGroup(
                title=title,
                reading=reading,
                lines=tuple(_line(each, ranking) for each in shown),
            )
            for standing, (title, reading) in _GROUPS.items()
            if (shown := _shown(ranking, standing))
        ),
        chapters=chapters,
        provenance=made,
        differing=tuple(_differing(chapters, made)),
        command=record.provenance.command,
    )


def _title(record: SuiteRecord) -> str:
    first, *others = [PurePath(video).name for video in record.videos] or ["no video"]
    more = f" and {len(others)} more" if others else ""
    options = record.provenance.configuration
    model = [str(options[name]) for name in ("model_name", "device") if name in options]
    return f"What makes it faster: {', '.join([first + more, ' on '.join(model)]).rstrip(', ')}"


def _shown(ranking: SuiteRanking, standing: Standing) -> list[RankedBenchmark]:
    return [each for each in ranking.of(standing) if each.chapter.outcome != "left out"]


def _line(judged: RankedBenchmark, ranking: SuiteRanking) -> SurveyLine:
    finding, advice, chapter = judged.finding, judged.advice, judged.chapter
    if finding is None:
        why = f"{(chapter.why or chapter.outcome).rstrip('.')}."
        return SurveyLine(name=judged.name, gain=chapter.outcome, words=why, has_chapter=False)
    gain, words, more = "none shown", finding.headline, finding.change
    if judged.standing == "unsure":
        gain, more = "uncertain", None
    elif advice is not None and judged.standing in ("gain", "part"):
        is_whole = judged.standing == "gain"
        gain = times_words(judged.gain_of_whole if is_whole else judged.gain)
        words, more = advice.words, finding.headline
    sentences = (_basis(judged, ranking), more)
    return SurveyLine(name=judged.name, gain=gain, words=words, more=tuple(filter(None, sentences)))


def _basis(judged: RankedBenchmark, ranking: SuiteRanking) -> str | None:
    """What a gain rests on, and what became of it on the way to the whole."""
    advice, whole, work = judged.advice, judged.whole, ranking.work
    if advice is None or advice.gain is None:
        return None
    rests_on = f": {advice.rests_on}" if advice.rests_on else ""
    if whole is None or work is None:
        return f"For {judged.part}{rests_on}."
    return (
        f"{times_words(advice.gain)} for {judged.part}{rests_on}. Of the whole "
        f"{times_words(whole.overlapped)} where stages overlap, as in headrace run, "
        f"{times_words(whole.in_turn)} where they follow each other."
    )


def _chapters(ranking: SuiteRanking) -> Iterator[SurveyChapter]:
    for judged in ranking.judged:
        if judged.page is None:
            continue
        chapter = judged.chapter
        made = judged.page.provenance.created.strftime("%Y-%m-%d %H:%M UTC")
        took = f", in {seconds(chapter.seconds)}" if chapter.seconds is not None else ""
        by = " by an earlier survey" if chapter.is_taken else ""
        yield SurveyChapter(
            name=judged.name,
            page=judged.page,
            made=f"measured {made}{by}{took}",
            alone=chapter.alone,
        )


def _differing(chapters: tuple[SurveyChapter, ...], made: Provenance) -> Iterator[tuple[str, str]]:
    for chapter in chapters:
        words = [
            f"{each.name} {each.other}, not {each.first}"
            for each in surroundings(made, chapter.page.provenance)
        ]
        if words:
            yield chapter.name, "; ".join(words)


def suite_json(ranking: SuiteRanking, folder: Path, files: dict[str, Path]) -> str:
    """Return the findings, the costliest first, and where the files in `folder` lie."""
    found, work = verdict(ranking), ranking.work
    document = {
        "verdict": found.headline,
        "evidence": list(found.evidence),
        "work_ms": {role: stage.ms for role, stage in work.stages.items()} if work else None,
        "findings": [_finding(each, folder) for each in ranking.judged],
        "files": {name: str(path) for name, path in files.items()},
    }
    return json.dumps(document)


def _finding(judged: RankedBenchmark, folder: Path) -> dict[str, Any]:
    chapter, advice, finding = judged.chapter, judged.advice, judged.finding
    found: dict[str, Any] = {
        "experiment": judged.name,
        "outcome": chapter.outcome,
        "why": chapter.why,
        "standing": judged.standing,
        "is_taken": chapter.is_taken,
    }
    if finding is None:
        return found
    return found | {
        "headline": finding.headline,
        "evidence": list(finding.evidence),
        "change": finding.change,
        "advice": None if advice is None else advice.words,
        "options": {} if advice is None else dict(advice.options),
        "concerns": judged.concerns or "whole",
        "gain": judged.gain,
        "gain_of_whole": judged.gain_of_whole,
        "gain_of_whole_in_turn": None if judged.whole is None else judged.whole.in_turn,
        "numbers": str(folder / f"{judged.name}.json"),
        "page": str(folder / f"{judged.name}.html"),
    }


PAGE: Final = "all.html"


def write_page(page: SurveyPage, folder: Path) -> Path:
    """Write the page into `folder`; return where it lies.

    Raises:
        ConfigError: it cannot be written.
    """
    write_whole(folder / PAGE, render_survey(page))
    return folder / PAGE


def page_of(experiments: Sequence[Registered], record: SuiteRecord, folder: Path) -> SurveyPage:
    """Return the page of the suite whose records lie in `folder`."""
    return suite_page(rank(experiments, record, folder))
