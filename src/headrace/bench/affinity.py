"""Core binding benchmark: the fastest cores and intra-op threads for a model and a run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import PositiveInt

from headrace.bench.benchmark import Benchmark, Context
from headrace.bench.charts import bars
from headrace.bench.config import BatchSize, ModelConfig, Repeats, TurnSeconds
from headrace.bench.variant_benchmark import (
    Ranking,
    VariantRecord,
    VariantRepetition,
    VariantRow,
    VariantSet,
    Work,
    measure_variants,
)
from headrace.measuring.decode_counts import rate_columns
from headrace.measuring.interleaved import cores_of_others, grouped
from headrace.profiling.findings.finding import Change, Finding
from headrace.profiling.number_format import counted, decimal
from headrace.profiling.provenance import Record, Scalar
from headrace.report.benchmark_page import Column
from headrace.runtime.processor_affinity import available_cores, can_bind, cores_text

if TYPE_CHECKING:
    from headrace.models.model import Model
    from headrace.models.results import Labels
    from headrace.runs.run_options import ComputeOptions
    from headrace.video.stream_index import StreamIndex

MODEL: Final = "model"
WHOLE: Final = "whole"


@dataclass(frozen=True, kw_only=True)
class AffinityConfig(ModelConfig):
    """Options of `bench affinity`.

    The model is light, so decoding and preprocessing compete for cores with the model's threads.
    """

    one_video_of: ClassVar = "affinity"
    batch_size: BatchSize = 16
    seconds: TurnSeconds = 2.0
    repeats: Repeats = 3


class CoreBinding(Record):
    """One setting of cores and threads."""

    way: str
    """The label: `all cores, 1 thread`."""
    cores: str | None
    """Value of `--core-bind`; None: all cores of the process."""
    num_cores: PositiveInt
    threads: PositiveInt | None
    """Intra-op threads; None: PyTorch's default."""


class AffinityRecord(VariantRecord):
    """Repetitions of each setting: the model alone and the whole run."""

    model: str
    can_bind: bool
    """Whether the system can bind a process to cores."""
    settings: tuple[CoreBinding, ...]
    """The default of a run first."""


def core_bindings(cores: frozenset[int], *, can_bind: bool) -> tuple[CoreBinding, ...]:
    """Return the settings: all or half of the cores; default threads, half as many, or one."""
    half = sorted(cores)[: len(cores) // 2]
    on_all = partial(CoreBinding, cores=None, num_cores=len(cores))
    bindings = [on_all(way="all cores", threads=None)]
    if len(cores) > 2:
        threads = len(cores) // 2
        bindings.append(on_all(way=f"all cores, {threads} threads", threads=threads))
    if len(cores) > 1:
        bindings.append(on_all(way="all cores, 1 thread", threads=1))
    if half and can_bind:
        on_half = partial(CoreBinding, cores=cores_text(half), num_cores=len(half))
        name = counted(len(half), "core")
        bindings.append(on_half(way=name, threads=None))
        if len(half) > 1:
            bindings.append(on_half(way=f"{name}, 1 thread", threads=1))
    return tuple(bindings)


def variant_of(kind: str, binding: CoreBinding) -> str:
    """Return the variant name of the model alone or of the whole run with one setting."""
    return f"{kind}: {binding.way}"


@contextmanager
def prepared(
    config: AffinityConfig, context: Context, bindings: Sequence[CoreBinding] = ()
) -> Iterator[VariantSet[AffinityRecord]]:
    """Yield the model alone and the whole run as variants, each with every setting.

    Cores and threads are restored after each repetition, also on errors. By default, `bindings` are
    the settings for the cores of this process.

    Raises:
        ConfigError, BackendError, MediaError: model, device or video is not available.
    """
    from headrace.bench.model_work import model_runs
    from headrace.runs.model_setup import compute_resources
    from headrace.runs.run_options import ExecutionOptions

    settings = tuple(bindings) or core_bindings(available_cores(), can_bind=can_bind())
    with model_runs(config, config.batch_size, config.seconds, context) as runs:
        model = runs.load()
        batches = runs.batches(model.input)

        @contextmanager
        def settled(variant: str) -> Iterator[None]:
            """Set the cores and threads of a variant; restore both on exit."""
            kind, _, name = variant.partition(": ")
            binding = next(binding for binding in settings if binding.way == name)
            execution = ExecutionOptions(core_bind=binding.cores)
            options = replace(runs.compute, threads=binding.threads, execution=execution)
            with compute_resources(options):
                if kind == MODEL:
                    model.run(batches[0])  # start its threads, untimed
                yield

        whole = runs.flow(partial(_flow, runs.compute, model, runs.cached.index))
        works: dict[str, Work] = {MODEL: runs.passes(batches, model.run), WHOLE: whole}
        yield VariantSet(
            variants={
                variant_of(kind, binding): work
                for kind, work in works.items()
                for binding in settings
            },
            record=partial(
                AffinityRecord, model=config.model_name, can_bind=can_bind(), settings=settings
            ),
            settled=settled,
        )


@contextmanager
def _flow(
    compute: "ComputeOptions", model: "Model[Labels]", index: "StreamIndex"
) -> Iterator[Iterator[int]]:
    """Yield frame counts of batches from an endless run: decode, preprocess, model."""
    from headrace.bench.model_work import endless
    from headrace.preprocess.levels import build_preprocess
    from headrace.runs.run_stages import SOURCE, Transfers, stages_of
    from headrace.runtime.pipeline import Pipeline

    preprocess = build_preprocess(compute.prep_level, model.input)
    stages = stages_of(preprocess, Transfers.of(model, prep_on_gpu=False), model, [])
    source = endless(index, compute.batch_size)
    line = Pipeline(source=source, stages=stages, source_name=SOURCE, traces_source=False)
    with line.run() as run:
        yield (item.value["frames"] for item in run)


@dataclass(frozen=True, kw_only=True)
class AffinityRow(VariantRow[CoreBinding]):
    """One setting; its rate is that of the whole run."""

    alone: VariantRow[CoreBinding]
    """Row of the model alone."""

    @property
    def series(self) -> tuple[Sequence[VariantRepetition], ...]:
        """Repetitions of the whole run, and of the model alone."""
        return self.repetitions, self.alone.repetitions

    @property
    def others(self) -> float | None:
        """Max cores kept busy by other programs; None: unknown."""
        known = (cores for cores in map(cores_of_others, self.series) if cores is not None)
        return max(known, default=None)


Rows = tuple[AffinityRow, ...]


def rows_of(record: AffinityRecord) -> Rows:
    """Return one row per setting, the default of a run first."""
    repetitions = grouped(record.turns, lambda repetition: repetition.way)

    def row(kind: str, binding: CoreBinding) -> dict[str, Any]:
        timed = repetitions[variant_of(kind, binding)]
        return {"variant": binding.way, "repetitions": timed, "facts": binding}

    return tuple(
        AffinityRow(**row(WHOLE, binding), alone=VariantRow(**row(MODEL, binding)))
        for binding in record.settings
    )


def _answer(record: AffinityRecord, rows: Rows) -> tuple[Finding, ...]:
    ranking = Ranking.of(record, rows, "frames")
    evidence = (*_alone(record, rows), *ranking.noise.sentences("Repetitions of one setting"))
    first, best = ranking.rate(ranking.first), ranking.best.variant
    if len(rows) == 1:
        headline = f"Only one core, so there is no other setting: {first}"
        return (Finding(headline=headline, evidence=evidence),)
    changes = {row.variant: _change(row.facts) for row in rows[1:]}
    return (
        Finding(
            headline=ranking.headline(
                doubtful=f"which setting is fastest; by the medians, {best}",
                won=f"A run is fastest with {best}: {ranking.rate(ranking.best)}",
                even=f"No setting of cores and threads is faster than the default: {first}",
            ),
            evidence=evidence,
            change=ranking.change(
                do=changes[best].words if best in changes else "", of="by default"
            ),
            advice=ranking.advice(changes),
        ),
    )


def _alone(record: AffinityRecord, rows: Rows) -> Iterator[str]:
    """Yield sentences on the model alone, and on settings that could not be tried."""
    alone = Ranking.of(record, tuple(row.alone for row in rows), "frames")
    if alone.noise.is_unsteady:
        yield "Of the model alone, the repetitions vary too much to say which setting is fastest."
    elif alone.is_won:
        yield (
            f"The model alone is fastest with {alone.best.variant}: {alone.rate(alone.best)}, "
            f"{decimal(alone.times(alone.best))} times the rate with {rows[0].variant}. In a run, "
            "decoding and preprocessing need cores too."
        )
    elif not alone.noise.doubt:
        yield f"No setting makes the model alone faster: {alone.rate(alone.first)} by default."
    if not record.can_bind:
        yield "This system cannot bind a process to cores (Linux can): only threads were varied."


def _change(binding: CoreBinding) -> Change:
    """Return the options of `headrace run` for a setting."""
    values = {"core_bind": binding.cores, "threads": binding.threads}
    options: dict[str, Scalar] = {
        name: value for name, value in values.items() if value is not None
    }
    flags = (f"--{name.replace('_', '-')} {value}" for name, value in options.items())
    return Change(words=f"headrace run {' '.join(flags)}", options=options)


AFFINITY: Final[Benchmark[AffinityConfig, AffinityRecord, AffinityRow]] = Benchmark(
    name="affinity",
    summary="Time a model and a whole run by number of cores and threads.",
    config=AffinityConfig,
    record=AffinityRecord,
    measure=partial(measure_variants, prepared),
    title=lambda record: (
        f"Frames per second by cores and threads: {record.model}, "
        f"{counted(record.settings[0].num_cores, 'usable core')}"
    ),
    rows=rows_of,
    columns=(
        Column("setting", lambda row: row.variant),
        Column("cores", lambda row: str(row.facts.num_cores)),
        Column("threads", lambda row: str(row.facts.threads or "default")),
        Column("model/s", lambda row: decimal(row.alone.rate.median)),
        Column("run/s", lambda row: decimal(row.rate.median)),
        *rate_columns("frames/s")[1:],
    ),
    reading="Frames per second, medians over the repetitions. model/s: the model alone, on batches "
    "in memory. run/s: a whole run (decode, preprocess and model; nothing is written), with its "
    "slowest and fastest repetition. Threads are PyTorch's intra-op threads: by default, one per "
    "core.",
    answer=_answer,
    charts=lambda record, rows: (
        bars(
            [row.variant for row in rows],
            {
                "model alone": [row.alone.rate for row in rows],
                "whole run": [row.rate for row in rows],
            },
            "frames/s",
            name="rates",
            title="Frames per second by cores and threads",
            axis="cores and threads",
            reading="All settings are interleaved.",
        ),
    ),
)
