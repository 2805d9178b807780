"""What each level of preprocessing takes on the CPU and on a GPU, beside decoding and the model."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from pydantic import NonNegativeFloat, PositiveInt

from headrace.errors import BackendError
from headrace.experiments.contest import ContestRecord, hold_contest
from headrace.experiments.experiment import Context
from headrace.experiments.model_choice import (
    SMALL_MODEL,
    BatchSize,
    ModelName,
    PrepLevel,
    Repeats,
    TurnSeconds,
    Weights,
    check_one,
)
from headrace.experiments.options import Videos, check_options
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
class PreprocessConfig:
    """What is measured."""

    videos: Videos
    model_name: ModelName = SMALL_MODEL
    """Light, so that what comes before the model counts, as it does beside a GPU."""
    weights: Weights = "none"
    batch_size: BatchSize = 16
    seconds: TurnSeconds = 1.0
    repeats: Repeats = 3

    def __post_init__(self) -> None:
        check_options(self)
        check_one(self.videos, "preprocess")


class Step(Record):
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


class PreprocessRecord(ContestRecord):
    """What was measured."""

    model: str
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the decoded frames."""
    threads: PositiveInt
    """Of one operation on the CPU, where it is not 1."""
    steps: tuple[Step, ...]
    compared: PositiveInt
    """Frames that were preprocessed in each place and compared, before anything was timed."""
    agreement: tuple[Agreement, ...]


def measure_preprocess(config: PreprocessConfig, context: Context) -> PreprocessRecord:
    """Prove that all places give the same tensors, then time every step in turns.

    Raises:
        ConfigError, MediaError: model or video cannot be had.
        BackendError: a GPU gives other tensors than the CPU.
    """
    import torch

    from headrace.experiments.model_ways import hold_frames
    from headrace.experiments.preprocess_ways import Steps

    made = context.provenance(config)
    held = hold_frames(config.videos[0], config.batch_size, context.store)
    steps = Steps(config, held, context.clock)
    agreement = tuple(steps.agreement())
    for each in agreement:
        if each.most > MOST_APART or each.mean > MEAN_APART:
            raise BackendError(
                f"preprocessing ({each.level}) gives other tensors on {each.place} than on the "
                f"CPU: apart by {each.most:.2g} grey levels, {each.mean:.2g} in the mean, and "
                f"{MOST_APART:g} and {MEAN_APART:g} are allowed, so nothing was timed; preprocess "
                "on the CPU"
            )
    ways = steps.ways()
    turns = hold_contest(
        {step.way: work for step, work in ways},
        repeats=config.repeats,
        context=context,
        settled=steps.settled,
    )
    return PreprocessRecord(
        provenance=made,
        turns=turns,
        model=config.model_name,
        size=held.index.info.upright_size,
        threads=torch.get_num_threads(),
        steps=tuple(step for step, _ in ways),
        compared=held.num_frames,
        agreement=agreement,
    )
