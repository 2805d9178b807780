"""Precision benchmark: rate and accuracy of a model in float32 and lower precisions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import NonNegativeFloat, PositiveInt

from headrace.bench.benchmark import Context, SuiteSpec
from headrace.bench.config import OF_MODEL_ALONE, ModelTurnsConfig, usual_precisions
from headrace.bench.variant_benchmark import (
    Ranking,
    Rows,
    VariantBenchmark,
    VariantRecord,
    VariantSet,
)
from headrace.profiling.findings.finding import Change
from headrace.profiling.number_format import counted, percent
from headrace.profiling.provenance import Record
from headrace.report.benchmark_page import Column

if TYPE_CHECKING:
    from torch import Tensor

FULL: Final = "float32"
"""Reference precision."""
_NATIVE: Final = {True: "yes", False: "emulated", None: "-"}


@dataclass(frozen=True, kw_only=True)
class AmpConfig(ModelTurnsConfig):
    """Options of `bench amp`."""

    one_video_of: ClassVar = "amp"


class PrecisionAccuracy(Record):
    """Changes in the results of one precision, relative to float32."""

    way: str
    same_class: NonNegativeFloat
    """Share of frames whose top class is equal, in [0, 1]."""
    most_changed: NonNegativeFloat
    """Largest difference of the confidence in float32's top class."""
    is_native: bool | None
    """Whether the CPU has instructions for it; None: unknown, or on a GPU."""


class AmpRecord(VariantRecord):
    """Repetitions and accuracy of each precision."""

    model: str
    device: str
    is_random: bool
    """Whether the model has random weights."""
    frames: PositiveInt
    """Frames compared."""
    precisions: tuple[PrecisionAccuracy, ...]
    """float32 first, without changes."""


@contextmanager
def _prepare(config: AmpConfig, context: Context) -> Iterator[VariantSet[AmpRecord]]:
    """Compare the results of each precision of the device; yield them as variants.

    Raises:
        ConfigError, BackendError, MediaError: model, device or video is not available.
    """
    from headrace.bench.model_work import model_runs, scores
    from headrace.models.device import is_native

    is_cpu = config.device == "cpu"
    with model_runs(config, config.batch_size, config.seconds, context) as runs:
        plain = runs.compute.compute()
        models = {
            name: runs.load(replace(plain, precision=name))
            for name in usual_precisions(config.device)
        }
        batches = runs.batches(models[FULL].input)
        scores_by_precision = {}
        for number, (name, model) in enumerate(models.items()):
            context.on_progress(f"{name}, compared", number, len(models))
            scores_by_precision[name] = [scores(model, b) for b in batches]
        yield VariantSet(
            variants={name: runs.passes(batches, model.run) for name, model in models.items()},
            record=partial(
                AmpRecord,
                model=models[FULL].name,
                device=config.device,
                is_random=config.weights == "none",
                frames=runs.cached.num_frames,
                precisions=tuple(
                    _accuracy(
                        name, scores_by_precision[FULL], of, is_native(name) if is_cpu else None
                    )
                    for name, of in scores_by_precision.items()
                ),
            ),
        )


def _accuracy(
    name: str, full: "Sequence[Tensor]", other: "Sequence[Tensor]", native: bool | None
) -> PrecisionAccuracy:
    import torch

    full_scores, other_scores = (
        torch.cat(list(batches)).softmax(dim=1) for batches in (full, other)
    )
    top = full_scores.argmax(dim=1, keepdim=True)
    difference = (full_scores.gather(1, top) - other_scores.gather(1, top)).abs()
    return PrecisionAccuracy(
        way=name,
        same_class=float((top == other_scores.argmax(dim=1, keepdim=True)).float().mean()),
        most_changed=float(difference.nan_to_num(nan=1.0).max()),
        is_native=native,
    )


def _changes(record: AmpRecord) -> dict[str, Change]:
    autocast = "bfloat16" if record.device == "cpu" else "float16"  # by --use-amp on this device
    words = "autocast in {}; headrace run --use-amp uses {}"
    changes = {
        accuracy.way: Change(words=words.format(accuracy.way, autocast))
        for accuracy in record.precisions
    }
    return changes | {autocast: Change(words="headrace run --use-amp", options={"amp": True})}


def _evidence(record: AmpRecord, rows: Rows[PrecisionAccuracy], ranking: Ranking) -> Iterator[str]:
    for accuracy in (row.facts for row in rows[1:]):
        yield (
            f"In {accuracy.way}, {percent(accuracy.same_class)} of "
            f"{counted(record.frames, 'frame')} have the same top class as in float32; its "
            f"confidence changes by at most {accuracy.most_changed:.1g}."
        )
    if record.is_random:
        yield (
            "With random weights, all classes are nearly equally likely, so equal classes mean "
            "little: --weights DEFAULT uses trained weights."
        )
    for accuracy in (row.facts for row in rows if row.facts.is_native is False):
        yield (
            f"This CPU has no instructions for {accuracy.way}: PyTorch emulates them, which makes "
            "the model slower, not faster."
        )
    yield OF_MODEL_ALONE


AMP: Final = VariantBenchmark(
    name="amp",
    summary="Time a model in float32 and lower precisions; report how its results change.",
    config=AmpConfig,
    record=AmpRecord,
    prepare=_prepare,
    title=lambda record: f"Frames per second by precision: {record.model} on {record.device}",
    reading=lambda record, rows: (
        "The model alone, on batches in memory; medians over the repetitions. Same class: share of "
        "frames with the same top class as in float32. Most changed: largest difference of its "
        "confidence (0 to 1). Native: whether the CPU has instructions for the precision."
    ),
    head="precision",
    facts=lambda record: {accuracy.way: accuracy for accuracy in record.precisions},
    further_columns=(
        Column("same class", lambda row: percent(row.facts.same_class)),
        Column("most changed", lambda row: f"{row.facts.most_changed:.1g}"),
        Column("native", lambda row: _NATIVE[row.facts.is_native]),
    ),
    changes=_changes,
    evidence=_evidence,
    rates=(
        "Frames per second of the model",
        "The same batches in each precision; autocast in all but float32.",
    ),
    terms=SuiteSpec(concerns="model", seconds=30),
).benchmark()
