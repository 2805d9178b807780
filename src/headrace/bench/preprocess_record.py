"""Configuration and record of `bench preprocess`, and its step names."""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal, get_args

from pydantic import NonNegativeFloat, PositiveInt

from headrace.bench.config import (
    SMALL_MODEL,
    BatchSize,
    BenchmarkConfig,
    ModelName,
    Repeats,
    TurnSeconds,
    Weights,
)
from headrace.bench.variant_benchmark import VariantRecord
from headrace.preprocess.spec import PrepLevel
from headrace.profiling.provenance import Record

Place = Literal["cpu", "1 thread", "gpu"]
"""Device of a step: the CPU with PyTorch's default threads (as in a run) or with one thread, or a
GPU."""
LEVELS: Final[tuple[PrepLevel, ...]] = get_args(PrepLevel)
DECODE: Final = "decode"
TRANSFER: Final = "transfer"
INFER: Final = "infer"
MOST_APART: Final = 4.0
"""Max difference in grey levels: a CPU resizes in integers, a GPU in float32; see
`preprocess.levels`."""
MEAN_APART: Final = 0.5
"""Max mean difference in grey levels."""


@dataclass(frozen=True, kw_only=True)
class PreprocessConfig(BenchmarkConfig):
    """Options of `bench preprocess`."""

    one_video_of: ClassVar = "preprocess"
    model_name: ModelName = SMALL_MODEL
    """Light, so that preprocessing matters, as it does beside a GPU."""
    weights: Weights = "none"
    batch_size: BatchSize = 4
    """Small: the complex level of a large frame takes long."""
    seconds: TurnSeconds = 1.0
    repeats: Repeats = 3


class TimedStep(Record):
    """One timed step on one device."""

    way: str
    """Variant name: `medium, 1 thread`."""
    name: str
    """A level, or decode, transfer or infer."""
    place: Place


class Agreement(Record):
    """Difference of a level's tensors between the CPU and another device, in grey levels."""

    level: PrepLevel
    place: Place
    most: NonNegativeFloat
    mean: NonNegativeFloat


class PreprocessRecord(VariantRecord):
    """Repetitions of all steps."""

    model: str
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the decoded frames."""
    threads: PositiveInt
    """Intra-op threads on the CPU of steps other than `1 thread`."""
    steps: tuple[TimedStep, ...]
    compared: PositiveInt
    """Frames preprocessed by each level on each device and compared, before timing."""
    agreement: tuple[Agreement, ...]
