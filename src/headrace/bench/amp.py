"""Which precision a model is fastest in, and what that changes in its results."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic import NonNegativeFloat, PositiveInt

from headrace.bench.benchmark import Context
from headrace.bench.contest import ContestRecord, hold_contest
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
    check_one,
    compute_of,
)
from headrace.measuring.config_fields import Videos, check_options
from headrace.profiling.provenance import Record

if TYPE_CHECKING:
    from torch import Tensor

    from headrace.models.precision import Device, Precision

FULL: Final = "float32"
"""What the others are compared with."""


@dataclass(frozen=True, kw_only=True)
class AmpConfig:
    """What is measured."""

    videos: Videos
    model_name: ModelName = USUAL_MODEL
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"
    threads: Threads = None
    batch_size: BatchSize = 16
    seconds: TurnSeconds = 2.0
    repeats: Repeats = 3

    def __post_init__(self) -> None:
        check_options(self)
        check_one(self.videos, "amp")


class Precise(Record):
    """What a precision changes in the results, by those of float32."""

    way: str
    same_class: NonNegativeFloat
    """Share of the frames whose likeliest class is the same."""
    most_changed: NonNegativeFloat
    """The largest difference of the confidence in the class that float32 names."""
    is_native: bool | None
    """Whether the processor has instructions for it; None where that is not known, and on a GPU."""


class AmpRecord(ContestRecord):
    """What was measured."""

    model: str
    device: str
    is_random: bool
    """Whether the model has random weights."""
    frames: PositiveInt
    """Whose results were compared."""
    precisions: tuple[Precise, ...]
    """float32 first, which changes nothing."""


def measure_amp(config: AmpConfig, context: Context) -> AmpRecord:
    """Compare the results of each precision that the device has, then time them in turns.

    Raises:
        ConfigError, BackendError, MediaError: model, device or video cannot be had.
    """
    from headrace.bench.model_variants import hold_frames, on_device, passes, scores
    from headrace.models.available import check_available
    from headrace.models.load import load_classifier
    from headrace.models.native import is_native
    from headrace.models.prepare import prepare
    from headrace.models.threads import operation_threads

    made, plain = context.provenance(config), compute_of(config).compute()
    check_available(plain)
    held = hold_frames(config.videos[0], config.batch_size, context.store)
    with operation_threads(config.threads):
        loaded = load_classifier(config.model_name, config.weights)
        models = {
            precision: prepare(
                lambda: loaded,
                replace(plain, precision=precision),
                batch_size=config.batch_size,
                clock=context.clock,
            ).model
            for precision in _precisions(config.device)
        }
        batches = on_device(held.prepared(config.prep_level, loaded.input), config.device)
        found = {name: [scores(model, b) for b in batches] for name, model in models.items()}
        turns = hold_contest(
            {
                name: passes(batches, model.run, seconds=config.seconds, clock=context.clock)
                for name, model in models.items()
            },
            repeats=config.repeats,
            context=context,
        )
    return AmpRecord(
        provenance=made,
        turns=turns,
        model=loaded.name,
        device=config.device,
        is_random=config.weights == "none",
        frames=held.num_frames,
        precisions=tuple(
            _precise(name, found[FULL], of, is_native(name) if config.device == "cpu" else None)
            for name, of in found.items()
        ),
    )


def _precisions(device: "Device") -> "tuple[Precision, ...]":
    """Return those that are worth asking for: float16 has no fast way on most processors."""
    import torch

    if device == "cpu":
        return (FULL, "bfloat16")
    return (FULL, "float16", *(("bfloat16",) if torch.cuda.is_bf16_supported() else ()))


def _precise(
    name: str, full: "Sequence[Tensor]", other: "Sequence[Tensor]", native: bool | None
) -> Precise:
    import torch

    ours, theirs = (torch.cat(list(each)).softmax(dim=1) for each in (full, other))
    named = ours.argmax(dim=1, keepdim=True)
    changed = (ours.gather(1, named) - theirs.gather(1, named)).abs().nan_to_num(nan=1.0)
    return Precise(
        way=name,
        same_class=float((named == theirs.argmax(dim=1, keepdim=True)).float().mean()),
        most_changed=float(changed.max()),
        is_native=native,
    )
