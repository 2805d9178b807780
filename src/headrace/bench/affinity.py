"""How many cores, and threads of one operation, a model and a whole run go best with."""

from dataclasses import dataclass

from headrace.bench.affinity_settings import Setting, settings
from headrace.bench.benchmark import Context
from headrace.bench.contest import ContestRecord, hold_contest
from headrace.bench.model_choice import (
    SMALL_MODEL,
    BatchSize,
    ModelName,
    OnDevice,
    Prepared,
    Repeats,
    TurnSeconds,
    Weights,
    check_one,
)
from headrace.measuring.config_fields import Videos, check_options
from headrace.runtime.affinity import available_cores, can_bind


@dataclass(frozen=True, kw_only=True)
class AffinityConfig:
    """What is measured."""

    videos: Videos
    model_name: ModelName = SMALL_MODEL
    """Light, so that decoding and preprocessing want cores too, for which the threads of the model
    contend with them."""
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"
    batch_size: BatchSize = 16
    seconds: TurnSeconds = 2.0
    repeats: Repeats = 3

    def __post_init__(self) -> None:
        check_options(self)
        check_one(self.videos, "affinity")


class AffinityRecord(ContestRecord):
    """What was measured: of each setting the turns of the model alone and of the whole path."""

    model: str
    can_bind: bool
    """Whether the system can bind a process to cores."""
    settings: tuple[Setting, ...]
    """What a run takes by itself first."""


def measure_affinity(config: AffinityConfig, context: Context) -> AffinityRecord:
    """Time the model alone and a whole run with each setting, in turns.

    Cores and threads are given back behind each turn, however it ends.

    Raises:
        ConfigError, BackendError, MediaError: model, device or video cannot be had.
    """
    from headrace.bench.affinity_variants import Paths
    from headrace.bench.model_variants import hold_frames
    from headrace.models.available import check_available
    from headrace.runs.options import ComputeOptions

    compute = ComputeOptions(
        model_name=config.model_name,
        weights=config.weights,
        batch_size=config.batch_size,
        prep_level=config.prep_level,
        device=config.device,
    )
    check_available(compute.compute())
    made = context.provenance(config)
    held = hold_frames(config.videos[0], config.batch_size, context.store)
    tried = settings(available_cores(), can_bind=can_bind())
    paths = Paths(compute, held, tried, seconds=config.seconds, clock=context.clock)
    turns = hold_contest(
        paths.ways(), repeats=config.repeats, context=context, settled=paths.settled
    )
    return AffinityRecord(
        provenance=made,
        turns=turns,
        model=config.model_name,
        can_bind=can_bind(),
        settings=tried,
    )
