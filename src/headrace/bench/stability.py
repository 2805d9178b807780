"""Stability benchmark: the smallest batch size and queue depth with a steady frame rate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from typing import Annotated, ClassVar, Final, TypeAlias

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from headrace.bench.benchmark import Benchmark, BenchmarkRecord, SuiteSpec, deferred
from headrace.bench.charts import Charts, Line, bars, lines
from headrace.bench.config import ThreadedModelConfig
from headrace.cached_property import cached_property
from headrace.config_fields import Option
from headrace.measuring.decode_counts import median_column
from headrace.measuring.interleaved import AGAIN, MedianRange, Repetition, RepetitionRow
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, percent, seconds
from headrace.report.benchmark_page import Column

ITERATIONS: Final = 100
"""Min iterations of a quotable CV."""

Batches: TypeAlias = Annotated[
    tuple[int, ...], Option("Frames per batch, one value per candidate.", least=1)
]


@dataclass(frozen=True, kw_only=True)
class StabilityConfig(ThreadedModelConfig):
    """Options of `bench stability`."""

    one_video_of: ClassVar = "stability"
    target: Annotated[
        float, Option("Max CV of the per-iteration FPS that counts as steady.", above=0, most=1)
    ] = 0.05
    iterations: Annotated[
        int, Option("Measured batches per repetition; a CV needs 100 or more.", least=20)
    ] = ITERATIONS
    batch_sizes: Batches = (1, 2, 4, 8, 16)
    queue_depths: Annotated[
        tuple[int, ...],
        Option("Max queued batches behind each stage, one value per candidate.", least=1),
    ] = (1, 2, 4, 8)
    repeats: Annotated[int, Option("Repetitions per candidate; the median counts.", least=1)] = 3
    max_seconds: Annotated[
        float, Option("Start no further candidate that would end after this many seconds.", above=0)
    ] = 90.0


@dataclass(frozen=True, kw_only=True, order=True)
class Candidate:
    """Batch size and queue depth; ordered by batch size, then queue depth."""

    batch_size: int
    queue_depth: int

    def __str__(self) -> str:
        """`batch size 4, queue depth 2`."""
        return f"batch size {self.batch_size}, queue depth {self.queue_depth}"


class StabilityRepetition(Repetition):
    """One repetition of one candidate."""

    batch_size: PositiveInt
    queue_depth: PositiveInt
    """Max batches queued behind each stage."""
    warm_up: PositiveInt
    """Uncounted results."""
    fps: tuple[PositiveFloat, ...]
    """Per iteration: frames of the batch ÷ time since the previous result."""
    frames_per_second: PositiveFloat
    """Frames ÷ time over all iterations."""

    @property
    def rate(self) -> float:
        """Frames per second."""
        return self.frames_per_second

    @property
    def step_times(self) -> list[float]:
        """Intervals between results."""
        return [1 / fps for fps in self.fps]

    @property
    def candidate(self) -> Candidate:
        """Batch size and queue depth."""
        return Candidate(batch_size=self.batch_size, queue_depth=self.queue_depth)

    @property
    def cv(self) -> float:
        """Standard deviation ÷ mean of the FPS by iteration; 0 is perfectly steady."""
        return _cv(self.fps)

    @property
    def interval_cv(self) -> float:
        """Standard deviation ÷ mean of the intervals between results."""
        return _cv(self.step_times)


def _cv(values: Sequence[float]) -> float:
    return pstdev(values) / fmean(values)


class StabilityRecord(BenchmarkRecord):
    """Repetitions of all candidates."""

    target: PositiveFloat
    iterations: PositiveInt
    repeats: PositiveInt
    run_depth: PositiveInt
    """Queue depth of `headrace run`."""
    max_seconds: PositiveFloat
    model_seconds: NonNegativeFloat
    """Seconds to load and warm up the model, before all repetitions."""
    left_out: tuple[PositiveInt, ...]
    """Batch sizes larger than the video."""
    unbegun: tuple[PositiveInt, PositiveInt] | None
    """Next candidate (batch size, queue depth) when the time was up; None: the search ended."""
    turns: tuple[StabilityRepetition, ...]
    """In timing order."""


@dataclass(frozen=True, kw_only=True)
class StabilityRow(RepetitionRow[StabilityRepetition]):
    """Repetitions of one candidate."""

    @property
    def candidate(self) -> Candidate:
        """Batch size and queue depth."""
        return self.first.candidate

    @cached_property
    def cv(self) -> MedianRange:
        """CV of the FPS by iteration."""
        return MedianRange.of([repetition.cv for repetition in self.repetitions])

    @property
    def fps(self) -> tuple[float, ...]:
        """FPS by iteration, of the repetition with the median CV."""
        return min(self.repetitions, key=lambda repetition: abs(repetition.cv - self.cv.median)).fps


Rows = tuple[StabilityRow, ...]
_BURST: Final = 3.0
"""Min FPS of an iteration ÷ mean FPS for results to count as a burst."""


def _best(record: StabilityRecord, rows: Rows) -> StabilityRow:
    """Return the smallest candidate with a steady median; else the steadiest."""
    steadiest = min(rows, key=lambda row: row.cv.median)
    return next((row for row in rows if row.cv.median < record.target), steadiest)


def _answer(record: StabilityRecord, rows: Rows) -> tuple[Finding, ...]:
    first, best, noise = rows[0], _best(record, rows), record.noise(rows)
    setting, cv, target = best.candidate, decimal(best.cv.median), record.target
    change, advice, run_depth = None, None, record.run_depth
    if best.cv.median >= target:
        verdict = f"CV < {target:g} was not reached; the best is {cv}, with {setting}"
        change = _towards_steady(rows, best)
    else:
        verdict = f"The frame rate is steady from {setting} on: CV {cv}, below {target:g}"
    if best.cv.median < target and best is not first:
        gain = f"CV {cv} instead of {decimal(first.cv.median)} with {first.candidate}"
        advice = Change(words=f"{setting}, for a steady rate", evidence=gain)
        change = (
            f"Pipeline(capacity={setting.queue_depth}) with batches of {setting.batch_size}: "
            f"{gain}. The queues of headrace run hold {run_depth}."
        )
        if setting.queue_depth <= run_depth:
            advice = replace(advice, options={"batch_size": setting.batch_size})
            queues = f"whose queues hold {run_depth}"
            change = f"--batch-size {setting.batch_size} of headrace run, {queues}: {gain}."
    if noise.doubt:
        verdict = f"{noise.doubt} from where on the frame rate is steady; by the medians: {verdict}"
        change, advice = AGAIN, None
    evidence = (*_evidence(record, rows, best), *noise.sentences("Rates of one candidate"))
    return (Finding(headline=verdict, evidence=evidence, change=change, advice=advice),)


def _towards_steady(rows: Rows, best: StabilityRow) -> str:
    larger = [row for row in rows if row.candidate.batch_size > best.candidate.batch_size]
    if not larger:
        return (
            "Larger --batch-sizes, with nothing else running: a batch that takes longer is "
            "disturbed less."
        )
    steadiest = min(larger, key=lambda row: row.cv.median)
    return (
        "No change is known but to have nothing else run: larger batches were less steady, CV "
        f"{decimal(steadiest.cv.median)} with {steadiest.candidate}."
    )


def _evidence(record: StabilityRecord, rows: Rows, best: StabilityRow) -> Iterator[str]:
    median = f", the median of {record.repeats} repetitions" if record.repeats > 1 else ""
    yield (
        "FPS of an iteration is the frames of a batch ÷ the time since the batch before came out. "
        f"CV is standard deviation ÷ mean over {counted(record.iterations, 'iteration')}{median}."
    )
    if record.repeats > 1:
        is_split = best.cv.lowest < record.target <= best.cv.highest
        sides = "on both sides of" if is_split else "all on one side of"
        spread = f"{decimal(best.cv.lowest)} to {decimal(best.cv.highest)}"
        yield f"Its repetitions came to {spread}, {sides} {record.target:g}."
    if max(best.fps) > _BURST * fmean(best.fps):
        yield (
            f"Results that came out right after each other are iterations of up to "
            f"{decimal(max(best.fps))} frames/s, which weigh most in it; the intervals between "
            "results have a CV of "
            f"{decimal(best.median(lambda repetition: repetition.interval_cv))}."
        )
    if record.iterations < ITERATIONS:
        yield f"Fewer than {ITERATIONS} iterations are a look at it, no figure to quote."
    if len(rows) > 1:
        yield (
            "That a deeper queue is no less steady is taken for granted: shorter ones are tried "
            "only where the deepest is steady."
        )
    if record.unbegun is not None:
        unbegun = Candidate(batch_size=record.unbegun[0], queue_depth=record.unbegun[1])
        until = f"--max-seconds {record.max_seconds:g}"
        yield f"The search was cut short: there was no time for {unbegun} ({until})."
    if record.left_out:
        sizes = ", ".join(map(str, record.left_out))
        yield f"Not tried, as the video has fewer frames: batch size {sizes}."
    left_out = sorted({repetition.warm_up for repetition in record.turns})
    results = " to ".join(map(str, dict.fromkeys((left_out[0], left_out[-1]))))
    yield (
        f"Left out: the first {results} results of each repetition, by the depth of the queues, "
        f"while these fill; and {seconds(record.model_seconds)} to make the model ready."
    )


def _charts(record: StabilityRecord, rows: Rows) -> Charts:
    best, band = _best(record, rows), record.target
    mean = fmean(best.fps)
    return (
        lines(
            [Line("FPS", tuple(enumerate(best.fps, 1)))],
            name="iterations",
            title=f"FPS by iteration, {best.candidate}",
            reading="Frames of a batch ÷ the time since the previous batch, of the repetition with "
            f"the median CV. Its standard deviation is {decimal(pstdev(best.fps))} frames/s; "
            f"where the CV is {band:g} it is as wide as the outer lines are from the mean.",
            x="iteration",
            y="frames/s",
            limits={
                f"mean {decimal(mean)}": mean,
                f"mean - {percent(band)}": mean * (1 - band),
                f"mean + {percent(band)}": mean * (1 + band),
            },
        ),
        bars(
            [_short(row) for row in rows],
            {"CV": [row.cv for row in rows]},
            "CV of FPS by iteration",
            name="cv",
            title="CV by batch size and queue depth",
            reading="One bar for each candidate that was tried. Left of the dashed line is steady.",
            axis="batch size × queue depth",
            limit=(f"{band:g}", band),
        ),
    )


def _short(row: StabilityRow) -> str:
    return f"{row.candidate.batch_size} × {row.candidate.queue_depth}"


STABILITY: Final[Benchmark[StabilityConfig, StabilityRecord, StabilityRow]] = Benchmark(
    name="stability",
    summary="Search the smallest batch size and queue depth with which the frame rate is steady.",
    config=StabilityConfig,
    record=StabilityRecord,
    measure=deferred("stability_search:measure_stability"),
    announce=lambda config: (
        f"Time: about {seconds(config.max_seconds)} (--max-seconds), more only if the first "
        "candidate takes more"
    ),
    title=lambda record: (
        f"Steadiness of the frame rate: FPS over {counted(record.iterations, 'iteration')} of "
        "decode, preprocess, model"
    ),
    rows=lambda record: StabilityRow.by(lambda repetition: repetition.candidate, record.turns),
    columns=lambda record: (
        Column("batch × queue", _short),
        Column("CV", lambda row: decimal(row.cv.median)),
        Column("min", lambda row: decimal(row.cv.lowest)),
        Column("max", lambda row: decimal(row.cv.highest)),
        median_column("intervals", lambda repetition: repetition.interval_cv),
        Column("mean FPS", lambda row: decimal(fmean(row.fps))),
        Column("std FPS", lambda row: decimal(pstdev(row.fps))),
        Column("frames/s", lambda row: decimal(row.rate.median)),
        Column("steady", lambda row: "yes" if row.cv.median < record.target else "no"),
    ),
    reading="CV is that of the FPS by iteration: median, min and max of the repetitions; beside it "
    "that of the intervals between results. Mean and standard deviation (std) are of the "
    "repetition nearest the median. Frames/s is frames ÷ time: a mean of rates is higher "
    "wherever they vary.",
    answer=_answer,
    charts=_charts,
    names_machine=False,
    terms=SuiteSpec(
        config=lambda videos: StabilityConfig(videos=videos[:1], max_seconds=45, repeats=2)
    ),
)
