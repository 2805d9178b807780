"""Model split benchmark: the whole model, and two parts sequential or pipelined."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, pairwise
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

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
from headrace.measuring.interleaved import grouped
from headrace.models.compute import layer_of
from headrace.profiling.findings.finding import Change
from headrace.profiling.number_format import counted, decimal
from headrace.profiling.provenance import Record
from headrace.report.benchmark_page import Column
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage

if TYPE_CHECKING:
    from torch import Tensor, nn

    from headrace.bench.model_work import ModelRuns

Values = tuple[Any, ...]

WHOLE: Final = "whole"
_CUTS: Final = 3
"""Default number of layers."""


@dataclass(frozen=True, kw_only=True)
class SplitConfig(ModelTurnsConfig):
    """Options of `bench split`.

    The default model is a chain of blocks of nearly equal work, so balanced cuts exist.
    """

    one_video_of: ClassVar = "split"
    split_points: Annotated[
        str | None,
        Option(
            "Layers to split after, comma-separated; default: three of the model's blocks.",
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
    from headrace.bench.model_work import model_runs, scores
    from headrace.runs.run_stages import Transfer

    layer_names = [] if config.split_points is None else config.split_points.split(",")
    layers = [layer_of(layer_name.strip(), config.model_name) for layer_name in layer_names]
    with model_runs(config, config.batch_size, config.seconds, context) as runs:
        model, carrier, cuts = runs.load(), Transfer(config.device), list[SplitTiming]()
        batches = runs.cached.prepared(config.prep_level, model.input)
        variants: dict[str, Work] = {
            WHOLE: runs.passes(batches, lambda batch: model.run(carrier.carry(batch)))
        }
        layers = list(dict.fromkeys(layers or spaced(blocks(model.module), _CUTS)))
        for number, layer in enumerate(layers):
            context.on_progress(f"{layer}, compared", number, len(layers))
            parts = SplitParts(runs, layer, batches)
            cuts.append(parts.cut(lambda batch: scores(model, carrier.carry(batch))))
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


class SplitParts:
    """Model split after a layer: first part on the CPU, second on the device."""

    def __init__(self, runs: "ModelRuns", layer: str, batches: "Sequence[Tensor]") -> None:
        """Load and cut the model.

        Raises:
            ConfigError: the layer is unknown, or the model cannot be split there.
        """
        from headrace.models.split_model import SplitModule
        from headrace.runs.run_stages import Transfer

        self._layer, self._batches, self._clock = layer, batches, runs.clock
        self._model = runs.load(replace(runs.compute.compute(), split_layer=layer))
        assert isinstance(self._model.module, SplitModule)
        self._split = self._model.module
        self._carrier = Transfer(runs.compute.device)

    def cut(self, score_whole: "Callable[[Tensor], Tensor]") -> SplitTiming:
        """Return the times of the parts, if the scores are equal.

        Raises:
            BackendError: the scores differ.
        """
        from headrace.bench.model_work import check_scores_equal

        difference = check_scores_equal(
            f"the scores of {self._model.name} change when it is split after {self._layer}",
            score_whole,
            self.scores,
            self._batches,
            self._model.compute.device,
            fix="leave this layer out",
        )
        timed = [self._time_parts(batch) for batch in self._batches]
        crossing = sum(getattr(value, "nbytes", 0) for value in self._begin(self._batches[0]))
        first, transfer, second = (median(part) for part in zip(*timed, strict=True))
        return SplitTiming(
            layer=self._layer,
            first_ms=first,
            transfer_ms=transfer,
            second_ms=second,
            crossing_bytes=crossing // len(self._batches[0]),
            difference=difference,
        )

    @contextmanager
    def pipelined(self) -> Iterator[Iterator[int]]:
        """Yield frame counts of batches from concurrent parts, one thread each, as in a run."""
        stages: list[Stage[Any, Any]] = [
            Stage(name="first part", function=self._begin),
            Stage(name="transfer", function=self._carry),
            Stage(name="second part", function=self._finish),
        ]
        with Pipeline(source=cycle(self._batches), stages=stages).run() as run:
            yield (len(item.value) for item in run)

    def _begin(self, batch: "Tensor") -> Values:
        with self._model.computing():
            return self._split.begin(batch)

    def _carry(self, values: Values) -> Values:
        return tuple(
            self._carrier.carry(value) if hasattr(value, "nbytes") else value for value in values
        )

    def _finish(self, values: Values) -> "Tensor":
        with self._model.computing():
            layers: Tensor = self._split.finish(values)
            return layers.float().cpu()

    def scores(self, batch: "Tensor") -> "Tensor":
        """Run the parts one after the other; return float32 [N, classes], on the CPU."""
        return self._finish(self._carry(self._begin(batch)))

    def _time_parts(self, batch: "Tensor") -> list[float]:
        """Return milliseconds per frame of the first part, the transfer and the second part."""
        value: Any = batch
        moments = [self._clock.now_ns()]
        for step in (self._begin, self._carry, self._finish):
            value = step(value)
            moments.append(self._clock.now_ns())
        return [(after - before) / 1e6 / len(batch) for before, after in pairwise(moments)]


def blocks(module: "nn.Module") -> list[str]:
    """Return the cut points between the blocks of a model, in execution order.

    Blocks are the layers of the outermost level with at least `_CUTS` cut points; layers with
    children are preferred.
    """
    from headrace.models.split_model import split_points

    points, modules = split_points(module), dict(module.named_modules())
    with_children = [point for point in points if [*modules[point].children()]]
    for names in (with_children, points):
        for _, layers in sorted(grouped(names, lambda name: name.count(".")).items()):
            if len(layers) >= _CUTS:
                return layers
    return points


def spaced(names: Sequence[str], count: int) -> list[str]:
    """Return `count` evenly spaced names; all of them if there are fewer."""
    if len(names) <= count:
        return list(names)
    return [names[len(names) * number // (count + 1) - 1] for number in range(1, count + 1)]


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
        f"whether a split pays off; by the medians, {rates}",
        won=f"A split of {record.model} pays off: {rates}",
        even=f"No split of {record.model} pays off: {rates}",
    )


def _changes(record: SplitRecord) -> dict[str, Change]:
    points = {_pipelined_name(cut.layer): f"{record.model}:{cut.layer}" for cut in record.cuts}
    return {
        variant: Change(words=f"headrace run --split-point {point}", options={"split_point": point})
        for variant, point in points.items()
    }


def _change(record: SplitRecord, rows: Rows[SplitTiming | None], ranking: Ranking) -> str:
    return ranking.change(ranking.advice(_changes(record)).words, of="of the whole model")


def _evidence(
    record: SplitRecord, rows: Rows[SplitTiming | None], ranking: Ranking
) -> Iterator[str]:
    if record.device == "cpu":
        yield (
            "Both parts run on the CPU and share its cores, so overlap only uses cores that one "
            "batch at a time leaves idle. --device cuda runs the second part on a GPU."
        )
    for cut in record.cuts:
        parts = (cut.first_ms, cut.transfer_ms, cut.second_ms)
        yield (
            f"Split after {cut.layer}, a frame takes {' + '.join(map(decimal, parts))} ms (first "
            "part, transfer, second part) sequentially. On separate devices, overlap gains at most "
            f"{decimal(sum(parts) / max(parts))} times. {decimal(cut.crossing_bytes / 1e3)} kB per "
            "frame cross the split."
        )
    max_difference = max(cut.difference for cut in record.cuts)
    difference = (
        f"differ by at most {max_difference:.1g} of the largest score"
        if max_difference
        else "are equal, bit for bit"
    )
    yield (
        f"Before timing, the scores of {counted(record.compared, 'frame')} were compared: they "
        f"{difference} ({record.allowed:g} is allowed)."
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
            axis="split after",
            reading="The whole model, and two parts split after each layer: in turn, and pipelined "
            "over different batches.",
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
            title="Time per frame of each part",
            axis="split after",
            is_stacked=True,
            reading="One batch at a time, medians over the batches. Overlapping parts take at "
            "least as long as the longest one.",
        ),
    )


def _part(name: str) -> Column[VariantRow[SplitTiming | None]]:
    """Return the column of a part's milliseconds."""
    return Column(f"{name} ms", lambda row: decimal(getattr(row.facts, f"{name}_ms", None)))


SPLIT: Final = VariantBenchmark(
    name="split",
    summary="Time a model whole and split after some layers, after comparing the scores.",
    config=SplitConfig,
    record=SplitRecord,
    prepare=_prepare,
    title=lambda record: (
        f"Frames per second, whole and split: {record.model}, first part on cpu, second on "
        f"{record.device}"
    ),
    reading=lambda record, rows: (
        "The model alone, on batches in CPU memory; medians over the repetitions. The last columns "
        "are the time per frame of each part and of the transfer, one batch at a time."
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
