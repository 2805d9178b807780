"""Whether a model in two parts is faster than whole: behind which layer, in turn or at once."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import NonNegativeFloat, PositiveInt

from headrace.bench.benchmark import Context
from headrace.bench.contest import ContestRecord, Way, hold_contest
from headrace.bench.model_choice import (
    USUAL_MODEL,
    BatchSize,
    ModelName,
    OnDevice,
    Prepared,
    Repeats,
    Threads,
    TurnSeconds,
    Weights,
    allowed_difference,
    check_one,
    compute_of,
)
from headrace.bench.split_cut import Cut
from headrace.measuring.config_fields import Option, Videos, check_options

if TYPE_CHECKING:
    from headrace.bench.model_variants import Flowing

WHOLE: Final = "whole"


@dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """What is measured."""

    videos: Videos
    model_name: ModelName = USUAL_MODEL
    """A line of blocks of nearly equal work: there are cuts that balance the parts."""
    split_points: Annotated[
        str | None,
        Option(
            "Layers to cut behind, with commas between; by default three of the model's blocks.",
            flags=("--split-point",),
            metavar="LAYER,...",
        ),
    ] = None
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"
    threads: Threads = None
    batch_size: BatchSize = 8
    """Small, so that a turn holds many batches, which parts at work at once pass on."""
    seconds: TurnSeconds = 1.5
    repeats: Repeats = 3

    def __post_init__(self) -> None:
        check_options(self)
        check_one(self.videos, "split")


class SplitRecord(ContestRecord):
    """What was measured."""

    model: str
    device: str
    """Of the whole model, and of the second parts; the first ones run on the CPU."""
    compared: PositiveInt
    """Frames whose scores were compared, before anything was timed."""
    allowed: NonNegativeFloat
    """How far they may be apart: ÷ the largest |score|."""
    cuts: tuple[Cut, ...]


def in_turn(layer: str) -> str:
    """Return what the turns are called in which the parts follow each other."""
    return f"{layer}, in turn"


def pipelined(layer: str) -> str:
    """Return what the turns are called in which the parts work at the same time."""
    return f"{layer}, pipelined"


def measure_split(config: SplitConfig, context: Context) -> SplitRecord:
    """Prove that the parts score as the whole model does, then time all ways in turns.

    Raises:
        ConfigError: the model has no such layer, or cannot be cut there.
        BackendError: the device is missing, or the parts score otherwise.
        MediaError: the video cannot be read.
    """
    from headrace.bench.model_variants import hold_frames, passes
    from headrace.bench.split_variants import Parts, Whole
    from headrace.models.available import check_available
    from headrace.models.compute import layer_of
    from headrace.models.threads import operation_threads

    made, options = context.provenance(config), compute_of(config, config.batch_size)
    check_available(options.compute())
    asked = [] if config.split_points is None else config.split_points.split(",")
    layers = [layer_of(each.strip(), config.model_name) for each in asked]
    held = hold_frames(config.videos[0], config.batch_size, context.store)
    seconds, clock = config.seconds, context.clock
    with operation_threads(config.threads):
        whole = Whole(options, clock)
        batches = held.prepared(config.prep_level, whole.model.input)
        cuts = []
        ways: dict[str, Way] = {WHOLE: passes(batches, whole.run, seconds=seconds, clock=clock)}
        flows: dict[str, Flowing] = {}
        for layer in dict.fromkeys(layers or whole.blocks()):
            parts = Parts(options, layer, batches, clock)
            cuts.append(parts.cut(whole.scores))
            ways[in_turn(layer)] = parts.in_turn(seconds)
            ways[pipelined(layer)] = flows[pipelined(layer)] = parts.pipelined(seconds)
        turns = hold_contest(
            ways,
            repeats=config.repeats,
            context=context,
            settled=lambda way: flows[way].begun() if way in flows else nullcontext(),
        )
    return SplitRecord(
        provenance=made,
        turns=turns,
        model=config.model_name,
        device=config.device,
        compared=held.num_frames,
        allowed=allowed_difference(config.device),
        cuts=tuple(cuts),
    )
