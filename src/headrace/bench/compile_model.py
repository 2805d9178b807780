"""torch.compile benchmark: rate of a model plain and compiled, and the cost of compiling."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from headrace.bench.benchmark import Context, SuiteSpec
from headrace.bench.charts import Line, lines
from headrace.bench.config import OF_MODEL_ALONE, ModelTurnsConfig, allowed_difference
from headrace.bench.variant_benchmark import (
    Ranking,
    Rows,
    VariantBenchmark,
    VariantRecord,
    VariantSet,
)
from headrace.profiling.findings.finding import Change
from headrace.profiling.number_format import count, counted, decimal, seconds
from headrace.report.benchmark_page import Column
from headrace.report.page import MARK, Chart
from headrace.report.page import PLAIN as GREY

if TYPE_CHECKING:
    from headrace.models.model import Compiler

PLAIN: Final = "plain"
COMPILED: Final = "compiled"


@dataclass(frozen=True, kw_only=True)
class CompileConfig(ModelTurnsConfig):
    """Options of `bench compile`.

    The default model has batch norms and activations after each convolution, which the compiler
    fuses. It has few kinds of layers, so it compiles in seconds.
    """

    one_video_of: ClassVar = "compile"


class CompileRecord(VariantRecord):
    """Repetitions of both variants, and the cost of compiling."""

    model: str
    device: str
    frame_rate: PositiveFloat
    """Frame rate of the video."""
    compile_seconds: NonNegativeFloat
    """Seconds to compile for the batch shape, first run included; before all repetitions."""
    is_cached: bool
    """Whether PyTorch's compile cache was hit."""
    compared: PositiveInt
    """Frames whose scores were compared before timing."""
    difference: NonNegativeFloat
    """Largest |difference| of the scores ÷ the largest |score|."""
    allowed: NonNegativeFloat
    """Tolerance of `difference`."""


@contextmanager
def prepared(
    config: CompileConfig, context: Context, compiler: "Compiler | None" = None
) -> Iterator[VariantSet[CompileRecord]]:
    """Prove equal scores of the plain and the compiled model.

    Raises:
        ConfigError, MediaError: model or video is not available.
        BackendError: the model cannot be compiled here, or its scores change.
    """
    from headrace.bench.model_work import check_scores_equal, model_runs, scores
    from headrace.models.model import compile_module

    with model_runs(config, config.batch_size, config.seconds, context) as runs:
        plain = runs.compute.compute()
        load = partial(runs.load, compiler=compiler or compile_module)
        context.on_progress("compiling", 0, 0)
        hits = _cache_hits()
        parts = dict[str, float]()
        model = load(plain)
        compiled = load(replace(plain, compile=True), on_part=parts.__setitem__)
        is_cached = _cache_hits() > hits
        batches = runs.batches(model.input)
        difference = check_scores_equal(
            f"the scores of {config.model_name} change when it is compiled",
            partial(scores, model),
            partial(scores, compiled),
            batches,
            config.device,
            fix="leave out --enable-compile",
        )
        yield VariantSet(
            variants={
                PLAIN: runs.passes(batches, model.run),
                COMPILED: runs.passes(batches, compiled.run),
            },
            record=partial(
                CompileRecord,
                model=model.name,
                device=config.device,
                frame_rate=float(runs.cached.index.frame_rate),
                compile_seconds=parts["compile"],
                is_cached=is_cached,
                compared=runs.cached.num_frames,
                difference=difference,
                allowed=allowed_difference(config.device),
            ),
        )


def pays_after(rows: Rows[float]) -> float | None:
    """Return the number of frames after which compiling pays off; None: never."""
    plain, compiled = rows
    saved = 1 / plain.rate.median - 1 / compiled.rate.median
    return compiled.facts / saved if saved > 0 else None


def _headline(record: CompileRecord, rows: Rows[float], ranking: Ranking) -> str:
    plain, compiled = rows
    rates = f"{ranking.rate(compiled)} against {ranking.rate(plain)}"
    times = decimal(ranking.times(compiled))
    return ranking.headline(
        f"what compiling gains; by the medians, {rates}",
        won=f"Compiled, {record.model} is {times} times as fast: {rates}",
        even=f"Compiling {record.model} gains nothing: {rates}",
    )


def _change(record: CompileRecord, rows: Rows[float], ranking: Ranking) -> str:
    frames = pays_after(rows) or 0.0
    return ranking.change(
        f"headrace run --enable-compile for more than {count(round(frames))} frames"
    )


def _evidence(record: CompileRecord, rows: Rows[float], ranking: Ranking) -> Iterator[str]:
    cost = f"Compiling took {seconds(record.compile_seconds)} before the first frame"
    if record.is_cached:
        cost += " (from PyTorch's compile cache; the first time takes longer)"
    frames = pays_after(rows)
    if ranking.noise.doubt:
        yield f"{cost}."
    elif frames is None or not ranking.is_won:
        yield f"{cost} and never pays off."
    else:
        played = seconds(frames / record.frame_rate)
        yield (
            f"{cost} and pays off after {count(round(frames))} frames: {played} of video at "
            f"{decimal(record.frame_rate)} frames/s."
        )
    yield (
        f"Before timing, the scores of {counted(record.compared, 'frame')} were compared: they "
        f"differ by at most {record.difference:.1g} of the largest score ({record.allowed:g} is "
        "allowed)."
    )
    yield OF_MODEL_ALONE


def _elapsed_chart(rows: Rows[float]) -> Chart:
    frames = pays_after(rows) or 60 * rows[0].rate.median
    return lines(
        [
            Line(
                row.variant,
                [(done, row.facts + done / row.rate.median) for done in (0, 2 * frames)],
                color=color,
            )
            for row, color in zip(rows, (GREY, MARK), strict=True)
        ],
        name="elapsed",
        title="Time to process a number of frames",
        reading="Compile time, then the median rate. Where the lines cross, compiling pays off.",
        x={"title_text": "frames", "rangemode": "tozero"},
        y="s",
    )


def _cache_hits() -> int:
    """Return the number of graphs that this process has loaded from PyTorch's compile cache.

    Source of the counters: "Compile Time Caching in torch.compile", PyTorch's tutorials.
    """
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["fxgraph_cache_hit"])


COMPILE_VARIANTS: Final = VariantBenchmark(
    name="compile",
    summary="Time a model plain and by torch.compile; report when compiling pays off.",
    config=CompileConfig,
    record=CompileRecord,
    prepare=prepared,
    title=lambda record: (
        f"Frames per second, plain and compiled: {record.model} on {record.device}"
    ),
    reading=lambda record, rows: (
        "The model alone, on batches in memory; medians over the repetitions. It is compiled once "
        "before all repetitions, for one batch shape; compile s is the time of this."
    ),
    head="model",
    facts=lambda record: {PLAIN: 0.0, COMPILED: record.compile_seconds},
    further_columns=(Column("compile s", lambda row: decimal(row.facts)),),
    headline=_headline,
    change=_change,
    changes=lambda record: {
        COMPILED: Change(words="headrace run --enable-compile", options={"compile": True})
    },
    evidence=_evidence,
    rates=("Frames per second of the model", "The same batches, plain and compiled."),
    charts=lambda rows: (_elapsed_chart(rows),),
    terms=SuiteSpec(concerns="model"),
)
COMPILE: Final = COMPILE_VARIANTS.benchmark()
