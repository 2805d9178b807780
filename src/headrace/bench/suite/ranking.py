"""Ranking of a suite: benchmarks by end-to-end gain (Amdahl), and a verdict. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, get_args

from headrace.bench.benchmark import BenchmarkRecord, Concern, Registered, StageWork, pace_ms
from headrace.bench.suite.suite_selection import BenchmarkOutcome, SuiteRecord, read_record
from headrace.measuring.interleaved import ALIKE, SAME_AGAIN
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal, listing, seconds
from headrace.profiling.provenance import Scalar
from headrace.profiling.run_records import ROLES, Role
from headrace.report.benchmark_page import BenchmarkPage
from headrace.report.page import Chart

Standing = Literal["gain", "part", "none", "unsure", "missing"]
"""*gain*: end to end; *part*: gain of one part with unknown share; *none*: no gain shown;
*unsure*: no verdict, because of noise; *missing*: not measured."""

_MODEL: Final[tuple[str, ...]] = ("model_name", "device")
_SHOWN: Final = 1 / ALIKE
"""Min gain that counts; smaller ones are ties."""


@dataclass(frozen=True, kw_only=True)
class StageCosts:
    """Sequential work of the stages on a frame."""

    stages: Mapping[Role, StageWork]
    source: str
    """Benchmark that measured it."""
    cores: int
    """Cores shared by all stages."""
    model: Mapping[str, Scalar] = field(default_factory=dict)
    """Model and device of the measurement, by option name."""

    @property
    def costliest(self) -> Role:
        """Role with the most wall time."""
        return max(self.stages, key=lambda role: self.stages[role].ms)

    @property
    def words(self) -> str:
        """`decoding 4.10, the model 8.40 ms`."""
        order = [role for role in ROLES if role in self.stages]
        text = (f"{ROLES[role].phrase} {decimal(self.stages[role].ms)}" for role in order)
        return f"{', '.join(text)} ms"


@dataclass(frozen=True, kw_only=True)
class EndToEndGain:
    """End-to-end speedup from a faster stage."""

    in_turn: float
    """With sequential stages (Amdahl): the other stages take as long as before."""
    overlapped: float
    """With overlapping stages, as in `headrace run`: limited by the next slowest stage or the
    shared cores."""


def end_to_end_gain(gain: float, role: Role, work: StageCosts) -> EndToEndGain | None:
    """Return the end-to-end gain of a faster stage; None: its work is unknown.

    The stage's CPU time is assumed to shrink like its wall time.

    Args:
        gain: Speed-up of the stage; above 0.
        role: Role of the stage.
        work: Work of all stages.
    """
    stages = work.stages
    if role not in stages or not stages[role].ms:
        return None
    stage = stages[role]
    faster = {**stages, role: StageWork(ms=stage.ms / gain, cpu_ms=stage.cpu_ms / gain)}
    now_ms, faster_ms = (sum(stage.ms for stage in work.values()) for work in (stages, faster))
    return EndToEndGain(
        in_turn=now_ms / faster_ms,
        overlapped=pace_ms(stages, work.cores) / pace_ms(faster, work.cores),
    )


@dataclass(frozen=True, kw_only=True)
class RankedBenchmark:
    """One benchmark of a suite: outcome, record and findings."""

    result: BenchmarkOutcome
    """Outcome; updated if the record cannot be read."""
    benchmark: Registered | None = None
    record: BenchmarkRecord | None = None
    """Record; None, like the page: not measured."""
    page: BenchmarkPage | None = None
    work: StageCosts | None = None
    """Work of all stages; None: not measured."""

    @property
    def name(self) -> str:
        """Name of the benchmark."""
        return self.result.experiment

    @property
    def concerns(self) -> Concern | None:
        """Part that its gain applies to; None: end to end."""
        return None if self.benchmark is None else self.benchmark.terms.concerns

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Its findings, the answer first; empty: not measured."""
        return () if self.page is None else self.page.findings

    @property
    def finding(self) -> Finding | None:
        """Its answer; None: not measured."""
        return next(iter(self.findings), None)

    @property
    def advice(self) -> Change | None:
        """First advised change with a gain, else the first."""
        advices = [finding.advice for finding in self.findings if finding.advice]
        return next(iter(sorted(advices, key=lambda advice: advice.gain is None)), None)

    @property
    def whole(self) -> EndToEndGain | None:
        """End-to-end gain; None: no gain, or unknown shares of the stages with its model."""
        gain, concerns, work = self.gain, self.concerns, self.work
        if not gain or concerns is None or concerns == "loading" or work is None:
            return None
        options = {} if self.record is None else self.record.provenance.configuration
        is_same = all(options.get(name, value) == value for name, value in work.model.items())
        return end_to_end_gain(gain, concerns, work) if is_same else None

    @property
    def is_unsure(self) -> bool:
        """Whether the answer is to measure again."""
        return self.finding is not None and (self.finding.change or "").startswith(SAME_AGAIN)

    @property
    def gain(self) -> float | None:
        """Speedup of the part it concerns; None: unknown."""
        return None if self.advice is None else self.advice.gain

    @property
    def gain_of_whole(self) -> float | None:
        """End-to-end speedup; None: unknown."""
        if self.concerns is None:
            return self.gain
        return None if self.whole is None else self.whole.overlapped

    @property
    def standing(self) -> Standing:
        """Group on the first page."""
        if self.page is None:
            return "missing"
        if self.is_unsure:
            return "unsure"
        if self.gain is None or self.gain < _SHOWN:
            return "none"
        if self.gain_of_whole is None:
            return "part"
        return "gain" if self.gain_of_whole >= _SHOWN else "none"

    @property
    def part(self) -> str:
        """Part that its gain applies to: `the model`, `loading`, `the whole run`."""
        if self.concerns is None:
            return "the whole run"
        return "loading" if self.concerns == "loading" else ROLES[self.concerns].phrase

    @property
    def gain_words(self) -> str:
        """`1.80 times`, `none shown`, `failed`."""
        if self.finding is None:
            return self.result.outcome
        if self.standing == "gain":
            return times_words(self.gain_of_whole)
        return {"part": times_words(self.gain), "unsure": "uncertain"}.get(
            self.standing, "none shown"
        )

    @property
    def words(self) -> str:
        """One sentence: the change with a gain, the answer, or the reason there is none."""
        if self.finding is None:
            return f"{(self.result.why or self.result.outcome).rstrip('.')}."
        is_gain = self.advice is not None and self.standing in ("gain", "part")
        return self.advice.words if self.advice and is_gain else self.finding.headline

    @property
    def more(self) -> tuple[str, ...]:
        """Further sentences: the evidence of a gain, then the answer that a change is based on."""
        if self.finding is None:
            return ()
        answer: str | None = self.finding.headline
        if self.words == answer:
            answer = None if self.standing == "unsure" else self.finding.change
        return tuple(filter(None, (self._basis, answer)))

    @property
    def _basis(self) -> str | None:
        """Figures behind the gain, and the end-to-end gain."""
        advice, whole = self.advice, self.whole
        if advice is None or advice.gain is None:
            return None
        evidence = f": {advice.evidence}" if advice.evidence else ""
        if whole is None:
            return f"For {self.part}{evidence}."
        return (
            f"{times_words(advice.gain)} for {self.part}{evidence}. End to end "
            f"{times_words(whole.overlapped)} with overlapping stages, as in headrace run, "
            f"{times_words(whole.in_turn)} with sequential stages."
        )

    @property
    def made(self) -> str:
        """Date and duration of the measurement; requires a record."""
        assert self.record is not None
        result = self.result
        created = self.record.provenance.created.strftime("%Y-%m-%d %H:%M UTC")
        duration = f", in {seconds(result.seconds)}" if result.seconds is not None else ""
        suite = " by an earlier suite" if result.is_taken else ""
        return f"measured {created}{suite}{duration}"

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Its charts, with names unique in the suite."""
        charts = () if self.page is None else self.page.charts
        return tuple(replace(chart, name=f"{self.name}-{chart.name}") for chart in charts)


@dataclass(frozen=True, kw_only=True)
class SuiteRanking:
    """All benchmarks of a suite."""

    record: SuiteRecord
    ranked: tuple[RankedBenchmark, ...]
    """Largest gain first: by standing, then by gain."""
    work: StageCosts | None
    """Stage costs that convert gains of stages."""

    def of(self, standing: Standing) -> tuple[RankedBenchmark, ...]:
        """Return the benchmarks with a standing, in order."""
        return tuple(row for row in self.ranked if row.standing == standing)


def rank(benchmarks: Sequence[Registered], record: SuiteRecord, folder: Path) -> SuiteRanking:
    """Return the ranking of the suite in `folder`.

    Args:
        benchmarks: Benchmarks of the registry.
        record: Record of the suite.
        folder: Folder of the benchmarks' records.
    """
    known = {benchmark.name: benchmark for benchmark in benchmarks}
    read = [_read(known.get(result.experiment), result, folder) for result in record.chapters]
    # Benchmarks with a verdict first.
    works = map(_work_of, sorted(read, key=lambda ranked: ranked.is_unsure))
    work = next(filter(None, works), None)
    ranked = sorted((replace(row, work=work) for row in read), key=_order)
    return SuiteRanking(record=record, ranked=tuple(ranked), work=work)


def _read(benchmark: Registered | None, result: BenchmarkOutcome, folder: Path) -> RankedBenchmark:
    if result.outcome != "measured":
        return RankedBenchmark(result=result)
    record: BenchmarkRecord | str = "this version of headrace has no benchmark of that name"
    if benchmark is not None:
        record = read_record(benchmark, folder)
    if benchmark is None or isinstance(record, str):
        return RankedBenchmark(
            result=result.model_copy(update={"outcome": "failed", "why": record})
        )
    page = benchmark.page(record)
    return RankedBenchmark(result=result, benchmark=benchmark, record=record, page=page)


def _work_of(ranked: RankedBenchmark) -> StageCosts | None:
    """Return the stage costs measured by a benchmark; None: not measured."""
    benchmark, record = ranked.benchmark, ranked.record
    if benchmark is None or record is None or benchmark.terms.work is None:
        return None
    stages, provenance = benchmark.terms.work(record), record.provenance
    if not any(stage.ms for stage in stages.values()):
        return None
    model = {
        name: provenance.configuration[name] for name in _MODEL if name in provenance.configuration
    }
    cores = provenance.machine.usable_cores
    return StageCosts(stages=stages, source=benchmark.name, cores=cores, model=model)


def _order(ranked: RankedBenchmark) -> tuple[int, float]:
    standing = ranked.standing
    gains = {"gain": ranked.gain_of_whole, "part": ranked.gain}
    return get_args(Standing).index(standing), -(gains.get(standing) or 0.0)


def verdict(ranking: SuiteRanking) -> Finding:
    """Return the largest gain; end-to-end gains come before gains of one part."""
    gains, parts, unsure = ranking.of("gain"), ranking.of("part"), ranking.of("unsure")
    top = next(iter((*gains, *parts)), None)
    if top is not None and top.advice is not None:
        is_whole = top.standing == "gain"
        gain = times_words(top.gain_of_whole if is_whole else top.gain)
        headline = (
            f"Largest gain shown: {top.advice.words} ({top.name}), "
            f"{'the whole run' if is_whole else top.part} about {gain} as fast"
        )
    elif unsure:
        number = counted(len(unsure), "benchmark")
        headline = f"No gain shown; {number} gave no verdict, because of noise"
    else:
        headline = "No gain shown" if ranking.of("none") else "Nothing was measured"
    return Finding(headline=headline, evidence=(*_work(ranking), *_counts(ranking)))


def times_words(gain: float | None) -> str:
    """`1.83 times`."""
    return f"{decimal(gain or 1.0)} times"


def _work(ranking: SuiteRanking) -> Iterator[str]:
    work = ranking.work
    if work is not None:
        yield (
            f"Sequentially, a frame takes {work.words} (bench {work.source}); the costliest stage "
            f"is {ROLES[work.costliest].phrase}."
        )
        if any(ranked.name == work.source for ranked in ranking.of("unsure")):
            yield (
                f"Other programs ran during bench {work.source}, or its repetitions vary too much, "
                "so these shares and the end-to-end gains of stages are uncertain."
            )
    elif any(ranked.concerns in ROLES for ranked in ranking.of("part")):
        yield (
            "The share of each stage was not measured, so gains of stages are for the stage alone."
        )


def _counts(ranking: SuiteRanking) -> Iterator[str]:
    rows = ranking.ranked
    measured = [ranked for ranked in rows if ranked.page is not None]
    were = "was" if len(measured) == 1 else "were"
    text = f"{len(measured)} of {counted(len(rows), 'benchmark')} {were} measured"
    earlier = (ranked.result.created for ranked in measured if ranked.result.is_taken)
    dates = [created for created in earlier if created is not None]
    if dates:
        since = min(dates).strftime("%Y-%m-%d %H:%M")
        text += f", {len(dates)} of them by an earlier suite (from {since} UTC on)"
    yield f"{text}."
    if unsure := [ranked.name for ranked in ranking.of("unsure")]:
        yield (
            "No verdict, because other programs ran or repetitions vary too much: "
            f"{listing(unsure)}. --rerun --only {','.join(unsure)} measures again."
        )
    if failed := [ranked.name for ranked in rows if ranked.result.outcome == "failed"]:
        yield f"{listing(failed)} failed."
    if left_out := [ranked.name for ranked in rows if ranked.result.outcome == "left out"]:
        yield f"Not selected: {listing(left_out)}."
    if any(ranked.result.outcome == "interrupted" for ranked in rows):
        yield "The suite was interrupted; the same command continues it."
