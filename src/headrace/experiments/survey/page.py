"""The report of a survey: what its records come to, in words. Pure."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from headrace.experiments.contend import SAME_AGAIN
from headrace.experiments.survey.judged import Judged, Judgement, Standing
from headrace.experiments.survey.record import SurveyRecord
from headrace.profiling.comparison.circumstances import surroundings
from headrace.profiling.findings.finding import Finding, listing
from headrace.profiling.provenance import Provenance
from headrace.profiling.stages import ROLES
from headrace.report.numbers import counted, decimal, seconds
from headrace.report.survey import SurveyChapter, SurveyGroup, SurveyLine, SurveyPage

_GROUPS: Final[dict[Standing, tuple[str, str]]] = {
    "gain": (
        "What makes the whole faster",
        "How many times as fast the whole would be, the largest gain first; where a gain is that "
        "of one stage, by the share of the work that stage has. Each was measured alone: gains of "
        "several lines do not multiply.",
    ),
    "part": (
        "What makes a part faster",
        "How many times as fast that part would be. What of it reaches your own loop depends on "
        "what that waits for: headrace watch -- python train.py tells.",
    ),
    "none": (
        "No gain shown",
        "Nothing that was tried is clearly faster, or it is too uncertain to say, or the figures "
        "tell something else than a gain.",
    ),
    "missing": ("Not measured", "Why there is no answer."),
}


def survey_page(judgement: Judgement) -> SurveyPage:
    """Return the report of a survey."""
    record = judgement.record
    chapters = tuple(_chapters(judgement))
    made = chapters[0].page.provenance if chapters else record.provenance
    return SurveyPage(
        title=_title(record),
        verdict=_verdict(judgement),
        groups=tuple(
            SurveyGroup(
                title=title,
                reading=reading,
                lines=tuple(_line(each, judgement) for each in shown),
            )
            for standing, (title, reading) in _GROUPS.items()
            if (shown := _shown(judgement, standing))
        ),
        chapters=chapters,
        provenance=made,
        differing=tuple(_differing(chapters, made)),
        command=record.provenance.command,
    )


def _shown(judgement: Judgement, standing: Standing) -> list[Judged]:
    return [each for each in judgement.of(standing) if each.chapter.outcome != "left out"]


def _title(record: SurveyRecord) -> str:
    first, *others = [PurePath(video).name for video in record.videos] or ["no video"]
    more = f" and {len(others)} more" if others else ""
    return f"What makes it faster: {first}{more}"


def _verdict(judgement: Judgement) -> Finding:
    gains, parts = judgement.of("gain"), judgement.of("part")
    top = next(iter((*gains, *parts)), None)
    if top is not None and top.advice is not None and top.advice.gain is not None:
        gain = top.gain_of_whole if top.standing == "gain" else top.gain
        of = "the whole" if top.standing == "gain" else top.part
        headline = (
            f"The largest gain shown: {top.advice.words} ({top.name}), {of} about "
            f"{_times(gain)} as fast"
        )
    elif any(each.page for each in judgement.judged):
        headline = "No gain shown"
    else:
        headline = "Nothing was measured"
    return Finding(headline=headline, evidence=(*_work(judgement), *_counts(judgement)))


def _work(judgement: Judgement) -> Iterator[str]:
    work = judgement.work
    if work is not None:
        yield (
            f"One after the other, a frame takes {work.words} (bench {work.source}): "
            f"{ROLES[work.costliest].phrase} takes the most."
        )
    elif any(each.concerns in ROLES for each in judgement.of("part")):
        yield (
            "Which share of the work each stage has was not measured, so gains of stages are those "
            "of the stage alone."
        )


def _counts(judgement: Judgement) -> Iterator[str]:
    judged = judgement.judged
    measured = [each for each in judged if each.page is not None]
    were = "was" if len(measured) == 1 else "were"
    said = f"{len(measured)} of {counted(len(judged), 'experiment')} {were} measured"
    taken = [each.chapter.created for each in measured if each.chapter.is_taken]
    dates = [moment for moment in taken if moment is not None]
    if dates:
        since = min(dates).strftime("%Y-%m-%d %H:%M")
        said += f", {len(dates)} of them by an earlier survey (from {since} UTC on)"
    yield f"{said}."
    unsure = [each.name for each in measured if _is_unsure(each)]
    if unsure:
        yield (
            f"Too uncertain to say: {listing(unsure)}. Other programs ran meanwhile, or turns of "
            f"one kind differ too much; --again --only {','.join(unsure)} measures anew."
        )
    failed = [each.name for each in judged if each.chapter.outcome == "failed"]
    if failed:
        yield f"{listing(failed)} failed; the others went on."
    left_out = [each.name for each in judged if each.chapter.outcome == "left out"]
    if left_out:
        yield f"Not asked for: {listing(left_out)}."
    if any(each.chapter.outcome == "interrupted" for each in judged):
        yield "It was interrupted: the same command goes on where it ended."


def _is_unsure(judged: Judged) -> bool:
    change = judged.finding.change if judged.finding is not None else None
    return change is not None and change.startswith(SAME_AGAIN)


def _line(judged: Judged, judgement: Judgement) -> SurveyLine:
    finding, advice = judged.finding, judged.advice
    if finding is None:
        chapter = judged.chapter
        why = chapter.why or chapter.outcome
        return SurveyLine(
            name=judged.name,
            gain=chapter.outcome,
            headline=f"{why}{'' if why.endswith('.') else '.'}",
            has_chapter=False,
        )
    has_gain = judged.standing in ("gain", "part") and advice is not None
    gain = judged.gain_of_whole if judged.standing == "gain" else judged.gain
    return SurveyLine(
        name=judged.name,
        gain=_times(gain) if has_gain else "none shown",
        headline=finding.headline,
        advice=advice.words if advice is not None and has_gain else finding.change,
        basis=_basis(judged, judgement),
    )


def _basis(judged: Judged, judgement: Judgement) -> str | None:
    """What a gain rests on, and what became of it on the way to the whole."""
    advice, whole, work = judged.advice, judged.whole, judgement.work
    if advice is None or advice.gain is None:
        return None
    said = f"{_times(advice.gain)} for {judged.part}"
    if advice.rests_on:
        said += f": {advice.rests_on}"
    if whole is None or work is None:
        return f"{said}."
    return (
        f"{said}. Of the whole {_times(whole.overlapped)} where stages overlap, as in headrace "
        f"run, {_times(whole.in_turn)} where they follow each other."
    )


def _times(gain: float | None) -> str:
    return f"{decimal(gain or 1.0)} times"


def _chapters(judgement: Judgement) -> Iterator[SurveyChapter]:
    for judged in judgement.judged:
        if judged.page is None:
            continue
        chapter = judged.chapter
        made = judged.page.provenance.created.strftime("%Y-%m-%d %H:%M UTC")
        took = f", in {seconds(chapter.seconds)}" if chapter.seconds is not None else ""
        by = " by an earlier survey" if chapter.is_taken else ""
        yield SurveyChapter(
            name=judged.name,
            page=judged.page,
            made=f"Measured {made}{by}{took}",
            alone=chapter.alone,
        )


def _differing(chapters: tuple[SurveyChapter, ...], made: Provenance) -> Iterator[tuple[str, str]]:
    for chapter in chapters:
        differing = surroundings(made, chapter.page.provenance)
        for each in differing:
            yield chapter.name, f"{each.part}: {each.name} {each.other}, not {each.first}"
