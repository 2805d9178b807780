"""Model split benchmark: the whole model, and two parts sequential or pipelined."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from headrace.bench.benchmark import Context, SuiteSpec
from headrace.bench.charts import Charts, bars
from headrace.bench.config import BatchSize, ModelTurnsConfig, TurnSeconds, allowed_difference
from headrace.bench.variant_benchmark import (
    Ranking,
    Rows,
    VariantBenchmark,
    VariantRecord,
    VariantRow,
    VariantSet,
    Work,
)
from headrace.config_fields import Option
from headrace.profiling.findings.finding import Change
from headrace.profiling.number_format import counted, decimal
from headrace.profiling.provenance import Record
from headrace.report.benchmark_page import Column

WHOLE: Final = "whole"


@dataclass(frozen=True, kw_only=True)
class SplitConfig(ModelTurnsConfig):
    """Options of `bench split`.

    The default model is a chain of blocks of nearly equal work, so balanced cuts exist.
    """

    one_video_of: ClassVar = "split"
    split_points: Annotated[
        str | None,
        Option(
            "Comma-separated layers to split after; by default three of the model's blocks.",
            flags=("--split-point",),
            metavar="LAYER,...",
        ),
    ] = None
    batch_size: BatchSize = 8
    """Small: a repetition holds many batches for the pipelined parts."""
    seconds: TurnSeconds = 1.5


class SplitTiming(Record):
    """Times of a split model's parts, one batch at a time."""

    layer: str
    first_ms: NonNegativeFloat
    """Milliseconds per frame of the first part, on the CPU; median over the batches."""
    transfer_ms: NonNegativeFloat
    """Milliseconds to transfer the second part's input to its device."""
    second_ms: NonNegativeFloat
    crossing_bytes: NonNegativeInt
    """Bytes of the second part's input per frame, on any device."""
    difference: NonNegativeFloat
    """Largest |difference| from the whole model's scores ÷ the largest |score|."""


class SplitRecord(VariantRecord):
    """Repetitions of all variants, and the parts' times."""

    model: str
    device: str
    """Device of the whole model and of the second parts; first parts run on the CPU."""
    compared: PositiveInt
    """Frames compared before timing."""
    allowed: NonNegativeFloat
    """Tolerance of `difference`."""
    cuts: tuple[SplitTiming, ...]


def _in_turn_name(layer: str) -> str:
    return f"{layer}, in turn"


def _pipelined_name(layer: str) -> str:
    return f"{layer}, pipelined"


@contextmanager
def _prepare(config: SplitConfig, context: Context) -> Iterator[VariantSet[SplitRecord]]:
    """Check that split and whole model give equal scores; yield all variants.

    Raises:
        ConfigError: the layer is unknown, or the model cannot be split there.
        BackendError: the device is missing, or the scores differ.
        MediaError: the video cannot be read.
    """
    from headrace.bench.model_variants import model_runs
    from headrace.bench.split_variants import SplitParts, Whole
    from headrace.models.compute import layer_of

    layer_names = [] if config.split_points is None else config.split_points.split(",")
    layers = [layer_of(layer_name.strip(), config.model_name) for layer_name in layer_names]
    with model_runs(config, context) as runs:
        whole, cuts = Whole(runs), []
        batches = runs.cached.prepared(config.prep_level, whole.model.input)
        variants: dict[str, Work] = {WHOLE: runs.passes(batches, whole.run)}
        layers = list(dict.fromkeys(layers or whole.blocks()))
        for number, layer in enumerate(layers):
            context.on_progress(f"{layer}, compared", number, len(layers))
            parts = SplitParts(runs, layer, batches)
            cuts.append(SplitTiming.model_validate({"layer": layer} | parts.cut(whole.scores)))
            variants[_in_turn_name(layer)] = runs.passes(batches, parts.scores)
            variants[_pipelined_name(layer)] = runs.flow(parts.pipelined)
        yield VariantSet(
            variants=variants,
            record=partial(
                SplitRecord,
                model=config.model_name,
                device=config.device,
                compared=runs.cached.num_frames,
                allowed=allowed_difference(config.device),
                cuts=tuple(cuts),
            ),
        )


def _facts(record: SplitRecord) -> dict[str, SplitTiming | None]:
    """Return the cut of each variant; None for the whole model."""
    cuts = {
        name(cut.layer): cut for cut in record.cuts for name in (_in_turn_name, _pipelined_name)
    }
    return {WHOLE: None, **cuts}


def _headline(record: SplitRecord, rows: Rows[SplitTiming | None], ranking: Ranking) -> str:
    parts = max(rows[1:], key=lambda row: row.rate.median)
    rates = f"{ranking.rate(parts)} ({parts.variant}) against {ranking.rate(ranking.first)} whole"
    return ranking.headline(
        f"whether a split pays; by the medians {rates}",
        won=f"A split of {record.model} pays: {rates}",
        even=f"No split of {record.model} pays here: {rates}",
    )


def _changes(record: SplitRecord) -> dict[str, Change]:
    points = {_pipelined_name(cut.layer): f"{record.model}:{cut.layer}" for cut in record.cuts}
    return {
        variant: Change(
            words=f"--split-point {point} of headrace run", options={"split_point": point}
        )
        for variant, point in points.items()
    }


def _change(record: SplitRecord, rows: Rows[SplitTiming | None], ranking: Ranking) -> str:
    return ranking.change(ranking.advice(_changes(record)).words, of="of the whole model")


def _evidence(
    record: SplitRecord, rows: Rows[SplitTiming | None], ranking: Ranking
) -> Iterator[str]:
    if record.device == "cpu":
        yield (
            "Both parts run on the CPU: they share its cores, so that overlapping gains only what "
            "one batch at a time leaves idle. --device cuda puts the second part on a GPU."
        )
    for cut in record.cuts:
        parts = (cut.first_ms, cut.transfer_ms, cut.second_ms)
        yield (
            f"Behind {cut.layer} a frame takes {' + '.join(map(decimal, parts))} ms (first part, "
            "transfer, second part), one at a time: with a processor each, overlapping gains at "
            f"most {decimal(sum(parts) / max(parts))} times; {decimal(cut.crossing_bytes / 1e3)} "
            "kB of a frame go from part to part."
        )
    max_difference = max(cut.difference for cut in record.cuts)
    same = (
        "the same, bit for bit"
        if not max_difference
        else f"apart by {max_difference:.1g} of the largest at most"
    )
    yield (
        f"Scores of {counted(record.compared, 'frame')} were {same}, before anything was timed "
        f"({record.allowed:g} is allowed)."
    )


def _charts(rows: Rows[SplitTiming | None]) -> Charts:
    cuts = list({row.facts.layer: row.facts for row in rows if row.facts}.values())
    layers = [cut.layer for cut in cuts]
    rates = {row.variant: row.rate for row in rows}
    return (
        bars(
            [WHOLE, *layers],
            {
                WHOLE: [rates[WHOLE], *[None] * len(layers)],
                "in turn": [None, *(rates[_in_turn_name(layer)] for layer in layers)],
                "pipelined": [None, *(rates[_pipelined_name(layer)] for layer in layers)],
            },
            "frames/s",
            name="rates",
            title="Frames per second of the model",
            axis="cut behind",
            reading="The whole model, and in two parts behind each layer: one part after the "
            "other, and both at work at the same time on different batches.",
        ),
        bars(
            layers,
            {
                "first part": [cut.first_ms for cut in cuts],
                "transfer": [cut.transfer_ms for cut in cuts],
                "second part": [cut.second_ms for cut in cuts],
            },
            "ms per frame",
            name="parts",
            title="Time of a frame in each part",
            axis="cut behind",
            is_stacked=True,
            reading="One batch at a time, medians over the batches. Parts that overlap take at "
            "least the longest of these.",
        ),
    )


def _part(name: str) -> Column[VariantRow[SplitTiming | None]]:
    """Return the column of a part's milliseconds."""
    return Column(f"{name} ms", lambda row: decimal(getattr(row.facts, f"{name}_ms", None)))


SPLIT: Final = VariantBenchmark(
    name="split",
    summary="Time a model whole and split behind some layers; prove first that it scores the same.",
    config=SplitConfig,
    record=SplitRecord,
    prepare=_prepare,
    title=lambda record: (
        f"Frames per second, whole and split: {record.model}, first part on cpu, second on "
        f"{record.device}"
    ),
    reading=lambda record, rows: (
        "Of the model alone, on batches that lie in the CPU's memory; medians over the "
        "repetitions. Behind them a frame's time in each part and on the way between them, one "
        "batch at a time."
    ),
    facts=_facts,
    further_columns=tuple(map(_part, ("first", "transfer", "second"))),
    headline=_headline,
    change=_change,
    changes=_changes,
    evidence=_evidence,
    rates=None,
    charts=_charts,
    terms=SuiteSpec(concerns="model"),
).benchmark()
