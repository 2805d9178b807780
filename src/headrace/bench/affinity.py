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
    """Default of a run first."""


def core_bindings(cores: frozenset[int], *, can_bind: bool) -> tuple[CoreBinding, ...]:
    """Return the settings: all or half of the cores; default threads, half as many, or one."""
    half = sorted(cores)[: len(cores) // 2]
    every = partial(CoreBinding, cores=None, num_cores=len(cores))
    tried = [every(way="all cores", threads=None)]
    if len(cores) > 2:
        threads = len(cores) // 2
        tried.append(every(way=f"all cores, {threads} threads", threads=threads))
    if len(cores) > 1:
        tried.append(every(way="all cores, 1 thread", threads=1))
    if half and can_bind:
        bound = partial(CoreBinding, cores=cores_text(half), num_cores=len(half))
        name = "1 core" if len(half) == 1 else f"{len(half)} cores"
        tried.append(bound(way=name, threads=None))
        if len(half) > 1:
            tried.append(bound(way=f"{name}, 1 thread", threads=1))
    return tuple(tried)


def variant_of(kind: str, binding: CoreBinding) -> str:
    """Return the variant name of the model alone or of the whole run with one setting."""
    return f"{kind}: {binding.way}"


@contextmanager
def prepared(
    config: AffinityConfig, context: Context, bindings: Sequence[CoreBinding] = ()
) -> Iterator[VariantSet[AffinityRecord]]:
    """Yield the model alone and the whole run as variants, each with every setting.

    Cores and threads are restored after each repetition, also on errors. `bindings` are by default
    those of this process's cores.

    Raises:
        ConfigError, BackendError, MediaError: model, device or video is not available.
    """
    from headrace.bench.model_variants import ModelRuns, hold_frames
    from headrace.models.precision_support import check_available
    from headrace.runs.model_setup import compute_resources
    from headrace.runs.run_options import ExecutionOptions

    compute = config.compute_options(config.batch_size)
    check_available(compute.compute())
    cached = hold_frames(config.videos[0], config.batch_size, context.store)
    runs = ModelRuns(compute=compute, cached=cached, seconds=config.seconds, clock=context.clock)
    model = runs.load()
    batches = runs.batches(model.input)
    settings = bindings or core_bindings(available_cores(), can_bind=can_bind())

    @contextmanager
    def settled(variant: str) -> Iterator[None]:
        """Set the cores and threads of a variant; restore both on exit."""
        kind, _, name = variant.partition(": ")
        binding = next(binding for binding in settings if binding.way == name)
        execution = ExecutionOptions(core_bind=binding.cores)
        with compute_resources(replace(compute, threads=binding.threads, execution=execution)):
            if kind == MODEL:
                model.run(batches[0])  # starts its threads
            yield

    alone = runs.passes(batches, model.run)
    whole = runs.flow(partial(_flow, compute, model, cached.index))
    kinds: tuple[tuple[str, Work], ...] = ((MODEL, alone), (WHOLE, whole))
    yield VariantSet(
        variants={variant_of(kind, binding): work for kind, work in kinds for binding in settings},
        record=partial(
            AffinityRecord, model=config.model_name, can_bind=can_bind(), settings=tuple(settings)
        ),
        settled=settled,
    )


@contextmanager
def _flow(
    compute: "ComputeOptions", model: "Model[Labels]", index: "StreamIndex"
) -> Iterator[Iterator[int]]:
    """Yield frame counts of batches from an endless run: decode, preprocess, model."""
    from headrace.bench.model_variants import endless
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
        """Cores kept busy by other programs meanwhile; None if unknown."""
        known = map(cores_of_others, self.series)
        return max((known_cores for known_cores in known if known_cores is not None), default=None)


Rows = tuple[AffinityRow, ...]


def rows_of(record: AffinityRecord) -> Rows:
    """Return one row per setting, the default of a run first."""
    repetitions = grouped(record.turns, lambda repetition: repetition.way)

    def row(kind: str, binding: CoreBinding) -> dict[str, Any]:
        taken = repetitions[variant_of(kind, binding)]
        return {"variant": binding.way, "repetitions": taken, "facts": binding}

    return tuple(
        AffinityRow(**row(WHOLE, binding), alone=VariantRow(**row(MODEL, binding)))
        for binding in record.settings
    )


def _answer(record: AffinityRecord, rows: Rows) -> tuple[Finding, ...]:
    ranking = Ranking.of(record, rows, "frames")
    evidence = (*_alone(record, rows), *ranking.noise.sentences("Repetitions of one setting"))
    first, best = ranking.rate(ranking.first), ranking.best.variant
    if len(rows) == 1:
        headline = f"One core, so there is nothing to choose: {first}"
        return (Finding(headline=headline, evidence=evidence),)
    changes = {row.variant: _change(row.facts) for row in rows[1:]}
    return (
        Finding(
            headline=ranking.headline(
                doubtful=f"what is the fastest; by the median {best}",
                won=f"A run goes fastest with {best}: {ranking.rate(ranking.best)}",
                even=f"No cores or threads are faster than those a run takes by itself: {first}",
            ),
            evidence=evidence,
            change=ranking.change(do=changes[best].words if best in changes else "", of="without"),
            advice=ranking.advice(changes),
        ),
    )


def _alone(record: AffinityRecord, rows: Rows) -> Iterator[str]:
    """Yield sentences: the rate of the model alone, and variants that could not be tried."""
    alone = Ranking.of(record, tuple(row.alone for row in rows), "frames")
    if alone.noise.is_unsteady:
        yield "The model alone is too unsteady to say what is the fastest for it."
    elif alone.is_won:
        yield (
            f"The model alone is fastest with {alone.best.variant}: {alone.rate(alone.best)}, "
            f"{decimal(alone.times(alone.best))} times as fast as with {rows[0].variant}; in a run "
            "decoding and preprocessing want cores as well."
        )
    elif not alone.noise.doubt:
        yield f"The model alone is not faster either: {alone.rate(alone.first)} as it is."
    if not record.can_bind:
        yield "This system cannot bind a process to cores (Linux can): threads alone were tried."


def _change(binding: CoreBinding) -> Change:
    """Return the options of `headrace run` for a setting."""
    named = {"core_bind": binding.cores, "threads": binding.threads}
    options: dict[str, Scalar] = {name: value for name, value in named.items() if value is not None}
    words = (f"--{name.replace('_', '-')} {value}" for name, value in options.items())
    return Change(words=f"{' '.join(words)} of headrace run", options=options)


AFFINITY: Final[Benchmark[AffinityConfig, AffinityRecord, AffinityRow]] = Benchmark(
    name="affinity",
    summary="Time a model and a whole run with all and half of the cores, many threads and one.",
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
    reading="Frames per second, medians over the repetitions: of the model alone, on batches that "
    "lie in memory, and of a whole run (decode, preprocess and model in their stages; nothing is "
    "written), of which the slowest and fastest repetition. Threads are those of one operation "
    "of PyTorch: by default as many as there are cores.",
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
