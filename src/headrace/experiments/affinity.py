"""How many cores, and threads of one operation, a model and a whole run go best with."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from pydantic import PositiveInt

from headrace.experiments.contest import ContestRecord, hold_contest
from headrace.experiments.experiment import Context
from headrace.experiments.model_choice import (
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
from headrace.experiments.options import Videos, check_options
from headrace.profiling.provenance import Record
from headrace.runtime.affinity import available_cores, can_bind, cores_text

MODEL: Final = "model"
WHOLE: Final = "whole"


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


class Setting(Record):
    """Cores and threads that were tried."""

    way: str
    """What it is called: `all cores, 1 thread`."""
    cores: str | None
    """As `--core-bind` takes them; None: those that the process may use."""
    num_cores: PositiveInt
    threads: PositiveInt | None
    """Of one operation; None: as many as PyTorch chooses."""


class AffinityRecord(ContestRecord):
    """What was measured: of each setting the turns of the model alone and of the whole path."""

    model: str
    can_bind: bool
    """Whether the system can bind a process to cores."""
    settings: tuple[Setting, ...]
    """What a run takes by itself first."""


def settings(cores: frozenset[int], *, can_bind: bool) -> tuple[Setting, ...]:
    """Return what is worth trying on these cores: all or half of them, all threads or one."""
    half = sorted(cores)[: len(cores) // 2]
    every = partial(Setting, cores=None, num_cores=len(cores))
    tried = [every(way="all cores", threads=None)]
    if len(cores) > 2:
        threads = len(cores) // 2
        tried.append(every(way=f"all cores, {threads} threads", threads=threads))
    if len(cores) > 1:
        tried.append(every(way="all cores, 1 thread", threads=1))
    if half and can_bind:
        bound = partial(Setting, cores=cores_text(half), num_cores=len(half))
        name = "1 core" if len(half) == 1 else f"{len(half)} cores"
        tried.append(bound(way=name, threads=None))
        if len(half) > 1:
            tried.append(bound(way=f"{name}, 1 thread", threads=1))
    return tuple(tried)


def way_of(kind: str, setting: Setting) -> str:
    """Return what the turns of the model alone, or of the whole path, are called."""
    return f"{kind}: {setting.way}"


def measure_affinity(config: AffinityConfig, context: Context) -> AffinityRecord:
    """Time the model alone and a whole run with each setting, in turns.

    Cores and threads are given back behind each turn, however it ends.

    Raises:
        ConfigError, BackendError, MediaError: model, device or video cannot be had.
    """
    from headrace.experiments.affinity_ways import Paths
    from headrace.experiments.model_ways import hold_frames
    from headrace.models.compute import check_available
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
