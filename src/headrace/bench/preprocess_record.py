"""What `bench preprocess` is asked and what it measured, as values; names of its steps."""

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
"""Where it is done: on the CPU, with the threads that PyTorch chooses, as a run does by itself, or
with 1 thread of one operation; or on a GPU."""
LEVELS: Final[tuple[PrepLevel, ...]] = get_args(PrepLevel)
DECODE: Final = "decode"
TRANSFER: Final = "transfer"
INFER: Final = "infer"
MOST_APART: Final = 4.0
"""Grey levels by which a number may differ between a CPU, which resizes in whole numbers, and a
GPU, which does in float32: see `preprocess.levels`."""
MEAN_APART: Final = 0.5
"""The same in the mean."""


@dataclass(frozen=True, kw_only=True)
class PreprocessConfig(BenchmarkConfig):
    """What is measured."""

    one_video_of: ClassVar = "preprocess"
    model_name: ModelName = SMALL_MODEL
    """Light, so that what comes before the model counts, as it does beside a GPU."""
    weights: Weights = "none"
    batch_size: BatchSize = 4
    """Small, as the complex level of a large frame takes long."""
    seconds: TurnSeconds = 1.0
    repeats: Repeats = 3


class TimedStep(Record):
    """One thing that was timed, in one place."""

    way: str
    """What its turns are called: `medium, 1 thread`."""
    name: str
    """A level, or decode, transfer or infer."""
    place: Place


class Agreement(Record):
    """How far a level's tensors are apart between the CPU and another place, in grey levels."""

    level: PrepLevel
    place: Place
    most: NonNegativeFloat
    mean: NonNegativeFloat


class PreprocessRecord(VariantRecord):
    """What was measured."""

    model: str
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the decoded frames."""
    threads: PositiveInt
    """Of one operation on the CPU, where it is not 1."""
    steps: tuple[TimedStep, ...]
    compared: PositiveInt
    """Frames that were preprocessed by each level in each place and compared, before anything was
    timed."""
    agreement: tuple[Agreement, ...]
