"""What a survey comes to, in a sentence, and what it rests on. Pure."""

from collections.abc import Iterator
from typing import Final

from headrace.bench.suite.ranking import Judgement, Standing
from headrace.profiling.findings.finding import Finding, listing
from headrace.profiling.stages import ROLES
from headrace.report.numbers import counted, decimal

_TOLD: Final[tuple[Standing, ...]] = ("gain", "part", "unsure")


def verdict(judgement: Judgement) -> Finding:
    """Return the largest gain, that of the whole before that of a part."""
    gains, parts, unsure = map(judgement.of, _TOLD)
    top = next(iter((*gains, *parts)), None)
    if top is not None and top.advice is not None:
        is_whole = top.standing == "gain"
        gain = times_words(top.gain_of_whole if is_whole else top.gain)
        headline = (
            f"The largest gain shown: {top.advice.words} ({top.name}), "
            f"{'the whole' if is_whole else top.part} about {gain} as fast"
        )
    elif unsure:
        number = counted(len(unsure), "experiment")
        headline = f"No gain shown; {number} gave no verdict, as the figures are too uncertain"
    else:
        headline = "No gain shown" if judgement.of("none") else "Nothing was measured"
    return Finding(headline=headline, evidence=(*_work(judgement), *_counts(judgement)))


def times_words(gain: float | None) -> str:
    """`1.83 times`."""
    return f"{decimal(gain or 1.0)} times"


def _work(judgement: Judgement) -> Iterator[str]:
    work = judgement.work
    if work is not None:
        yield (
            f"One after the other, a frame takes {work.words} (bench {work.source}): "
            f"{ROLES[work.costliest].phrase} takes the most."
        )
        if any(each.name == work.source for each in judgement.of("unsure")):
            yield (
                f"Other programs ran during bench {work.source}, or its turns differ too much: "
                "these shares are uncertain, and so is what gains of stages are for the whole."
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
    if unsure := [each.name for each in judgement.of("unsure")]:
        yield (
            "Too uncertain to say, as other programs ran meanwhile or turns of one kind differ too "
            f"much: {listing(unsure)}. --again --only {','.join(unsure)} measures anew."
        )
    if failed := [each.name for each in judged if each.chapter.outcome == "failed"]:
        yield f"{listing(failed)} failed."
    if left_out := [each.name for each in judged if each.chapter.outcome == "left out"]:
        yield f"Not asked for: {listing(left_out)}."
    if any(each.chapter.outcome == "interrupted" for each in judged):
        yield "It was interrupted: the same command goes on where it ended."
