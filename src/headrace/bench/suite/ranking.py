"""What the records of a suite come to: benchmarks by their gain, and a verdict. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from headrace.bench.benchmark import BenchmarkRecord
from headrace.bench.suite.suite_record import Chapter, SurveyRecord, read_record
from headrace.bench.suite.suite_selection import Registered
from headrace.bench.suite.suite_spec import Concern, WholeGain, Work, whole_gain
from headrace.measuring.interleaved import ALIKE, SAME_AGAIN
from headrace.profiling.findings.finding import Change, Finding, listing
from headrace.profiling.stages import ROLES
from headrace.report.experiment import ExperimentPage
from headrace.report.numbers import counted, decimal

_Found = tuple[Registered | None, Chapter, BenchmarkRecord | None]
Standing = Literal["gain", "part", "none", "unsure", "missing"]
"""A gain of the whole; one of a part whose share of the whole is not known; no gain shown; no
verdict, since other programs ran or turns differ too much; not measured."""

_MODEL: Final[tuple[str, ...]] = ("model_name", "device")
_SHOWN: Final = 1 / ALIKE
"""From this gain on it is one: what is closer cannot be told apart."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is known of one experiment."""

    chapter: Chapter
    """With another outcome where its record cannot be read any more."""
    concerns: Concern | None
    page: ExperimentPage | None = None
    """What its record shows; None where it was not measured."""
    whole: WholeGain | None = None
    """What its gain is for the whole; None where it has none, or nobody measured the shares."""

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.chapter.experiment

    @property
    def finding(self) -> Finding | None:
        """Its answer; None where it was not measured."""
        return self.page.findings[0] if self.page is not None and self.page.findings else None

    @property
    def advice(self) -> Change | None:
        """The first change it advises that has a gain, else the first."""
        return _advice(self.page)

    @property
    def gain(self) -> float | None:
        """Times as fast what it concerns would be; None where no figure tells."""
        return None if self.advice is None else self.advice.gain

    @property
    def gain_of_whole(self) -> float | None:
        """Times as fast the whole would be; None where that is not known."""
        if self.concerns is None:
            return self.gain
        return None if self.whole is None else self.whole.overlapped

    @property
    def standing(self) -> Standing:
        """Where it stands on the first page."""
        if self.page is None:
            return "missing"
        if is_unsure(self.page):
            return "unsure"
        if self.gain is None or self.gain < _SHOWN:
            return "none"
        if self.gain_of_whole is None:
            return "part"
        return "gain" if self.gain_of_whole >= _SHOWN else "none"

    @property
    def part(self) -> str:
        """What its gain is a gain of: `the model`, `loading`, `the whole`."""
        if self.concerns is None:
            return "the whole"
        return "loading" if self.concerns == "loading" else ROLES[self.concerns].phrase


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """All experiments of a survey."""

    record: SurveyRecord
    judged: tuple[Judged, ...]
    """The costliest first: by standing, then by gain."""
    work: Work | None
    """What gains of stages were converted by."""

    def of(self, standing: Standing) -> tuple[Judged, ...]:
        """Return those that stand there, in their order."""
        return tuple(each for each in self.judged if each.standing == standing)


def judge(experiments: Sequence[Registered], record: SurveyRecord, folder: Path) -> Judgement:
    """Return what the records of a survey in `folder` come to.

    Args:
        experiments: Of the registry.
        record: Of the survey.
        folder: Where the records of the experiments lie.
    """
    known = {each.name: each for each in experiments}
    found: list[_Found] = []
    for chapter in record.chapters:
        experiment = known.get(chapter.experiment)
        found.append((experiment, *_read(experiment, chapter, folder)))
    work = _work_of_all(found)
    judged = [_judged(experiment, chapter, own, work) for experiment, chapter, own in found]
    return Judgement(record=record, judged=tuple(sorted(judged, key=_order)), work=work)


def is_unsure(page: ExperimentPage) -> bool:
    """Whether its answer is that the same must be measured again."""
    change = page.findings[0].change if page.findings else None
    return change is not None and change.startswith(SAME_AGAIN)


def _read(
    experiment: Registered | None, chapter: Chapter, folder: Path
) -> tuple[Chapter, BenchmarkRecord | None]:
    if chapter.outcome != "measured":
        return chapter, None
    why = "this headrace has no experiment of that name"
    if experiment is not None:
        record = read_record(experiment, folder)
        if not isinstance(record, str):
            return chapter, record
        why = record
    return chapter.model_copy(update={"outcome": "failed", "why": why}), None


def _work_of_all(found: Sequence[_Found]) -> Work | None:
    """What the first experiment tells that measured it; one with a verdict before one without."""
    told = []
    for experiment, _, record in found:
        if experiment is None or record is None or experiment.terms.work is None:
            continue
        stages = experiment.terms.work(record)
        cores = record.provenance.machine.usable_cores
        if any(stage.ms for stage in stages.values()):
            options = record.provenance.configuration
            model = {name: options[name] for name in _MODEL if name in options}
            work = Work(stages=stages, source=experiment.name, cores=cores, model=model)
            told.append((is_unsure(experiment.page(record)), work))
    return min(told, key=lambda each: each[0])[1] if told else None


def _is_same_model(record: BenchmarkRecord, work: Work) -> bool:
    """Whether a gain is of the model, and on the device, that the shares are of."""
    options = record.provenance.configuration
    return all(options.get(name, value) == value for name, value in work.model.items())


def _judged(
    experiment: Registered | None,
    chapter: Chapter,
    record: BenchmarkRecord | None,
    work: Work | None,
) -> Judged:
    if experiment is None or record is None:
        return Judged(chapter=chapter, concerns=None)
    page, concerns = experiment.page(record), experiment.terms.concerns
    advice, whole = _advice(page), None
    gain = advice.gain if advice is not None else None
    if concerns is not None and concerns != "loading" and gain and work is not None:
        whole = whole_gain(gain, concerns, work) if _is_same_model(record, work) else None
    return Judged(chapter=chapter, concerns=concerns, page=page, whole=whole)


def _advice(page: ExperimentPage | None) -> Change | None:
    advices = [each.advice for each in page.findings if each.advice] if page is not None else []
    with_gain = [each for each in advices if each.gain is not None]
    return next(iter((*with_gain, *advices)), None)


def _order(judged: Judged) -> tuple[int, float]:
    standing = judged.standing
    gain = judged.gain_of_whole if standing == "gain" else judged.gain
    return get_args(Standing).index(standing), -(gain or 0.0) if standing in (
        "gain",
        "part",
    ) else 0.0


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
