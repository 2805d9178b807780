"""What each level of preprocessing takes on the CPU and on a GPU, beside decoding and the model."""

from dataclasses import dataclass

from pydantic import PositiveInt

from headrace.bench.benchmark import Context
from headrace.bench.contest import ContestRecord, hold_contest
from headrace.bench.model_choice import (
    SMALL_MODEL,
    BatchSize,
    ModelName,
    Repeats,
    TurnSeconds,
    Weights,
    check_one,
)
from headrace.bench.preprocess_steps import MEAN_APART, MOST_APART, Agreement, Step
from headrace.errors import BackendError
from headrace.measuring.config_fields import Videos, check_options


@dataclass(frozen=True, kw_only=True)
class PreprocessConfig:
    """What is measured."""

    videos: Videos
    model_name: ModelName = SMALL_MODEL
    """Light, so that what comes before the model counts, as it does beside a GPU."""
    weights: Weights = "none"
    batch_size: BatchSize = 4
    """Small, as the complex level of a large frame takes long."""
    seconds: TurnSeconds = 1.0
    repeats: Repeats = 3

    def __post_init__(self) -> None:
        check_options(self)
        check_one(self.videos, "preprocess")


class PreprocessRecord(ContestRecord):
    """What was measured."""

    model: str
    size: tuple[PositiveInt, PositiveInt]
    """(height, width) of the decoded frames."""
    threads: PositiveInt
    """Of one operation on the CPU, where it is not 1."""
    steps: tuple[Step, ...]
    compared: PositiveInt
    """Frames that were preprocessed by each level in each place and compared, before anything was
    timed."""
    agreement: tuple[Agreement, ...]


def measure_preprocess(config: PreprocessConfig, context: Context) -> PreprocessRecord:
    """Prove that all places give the same tensors, then time every step in turns.

    Raises:
        ConfigError, MediaError: model or video cannot be had.
        BackendError: a GPU gives other tensors than the CPU.
    """
    import torch

    from headrace.bench.model_variants import hold_frames
    from headrace.bench.preprocess_variants import Steps
    from headrace.runs.options import ComputeOptions

    made = context.provenance(config)
    compute = ComputeOptions(
        model_name=config.model_name, weights=config.weights, batch_size=config.batch_size
    )
    held = hold_frames(config.videos[0], config.batch_size, context.store)
    steps = Steps(compute, held, config.seconds, context.clock)
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
        compared=len(held.batches),
        agreement=agreement,
    )
