"""Whether torch.compile pays: a model as it is and compiled, and what compiling costs."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

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
    allowed_difference,
    check_one,
    compute_of,
)
from headrace.errors import BackendError
from headrace.measuring.config_fields import Videos, check_options

if TYPE_CHECKING:
    from headrace.models.prepare import Compiler

PLAIN: Final = "plain"
COMPILED: Final = "compiled"


@dataclass(frozen=True, kw_only=True)
class CompileConfig:
    """What is measured."""

    videos: Videos
    model_name: ModelName = USUAL_MODEL
    """Batch norms and activations around each convolution, which compiling joins; few enough kinds
    of layers that it takes seconds."""
    weights: Weights = "none"
    prep_level: Prepared = "medium"
    device: OnDevice = "cpu"
    threads: Threads = None
    batch_size: BatchSize = 16
    seconds: TurnSeconds = 2.0
    repeats: Repeats = 3

    def __post_init__(self) -> None:
        check_options(self)
        check_one(self.videos, "compile")


class CompileRecord(ContestRecord):
    """What was measured."""

    model: str
    device: str
    frame_rate: PositiveFloat
    """Of the video."""
    compile_seconds: NonNegativeFloat
    """To compile it for the shape of the batches, its first run included; before all turns."""
    is_cached: bool
    """Whether PyTorch had compiled it before and kept that on disk."""
    compared: PositiveInt
    """Frames whose scores were compared before anything was timed."""
    difference: NonNegativeFloat
    """How far their scores were apart at most: |difference| ÷ the largest |score|."""
    allowed: NonNegativeFloat
    """How far they may be."""


def measure_compile(
    config: CompileConfig, context: Context, compiler: "Compiler | None" = None
) -> CompileRecord:
    """Prove that the compiled model scores as the plain one does, then time both in turns.

    Args:
        config: What is measured.
        context: What it is given besides.
        compiler: What compiles; None means torch.compile.

    Raises:
        ConfigError, MediaError: model or video cannot be had.
        BackendError: the model cannot be compiled here, or scores otherwise then.
    """
    from headrace.bench.model_variants import (
        difference,
        hold_frames,
        on_device,
        passes,
        scores,
    )
    from headrace.models.available import check_available
    from headrace.models.compile_cache import cache_hits
    from headrace.models.load import load_classifier
    from headrace.models.prepare import compile_module, prepare
    from headrace.models.threads import operation_threads

    made, plain = context.provenance(config), compute_of(config).compute()
    check_available(plain)
    held = hold_frames(config.videos[0], config.batch_size, context.store)
    with operation_threads(config.threads):
        ready = partial(
            prepare,
            lambda: load_classifier(config.model_name, config.weights),
            batch_size=config.batch_size,
            clock=context.clock,
            compiler=compiler or compile_module,
        )
        context.on_progress("compiling", 0, 0)
        hits = cache_hits()
        one, other = ready(plain), ready(replace(plain, compile=True))
        is_cached = cache_hits() > hits
        batches = on_device(held.prepared(config.prep_level, one.model.input), config.device)
        apart = difference(partial(scores, one.model), partial(scores, other.model), batches)
        _check(config, apart)
        turn = partial(passes, batches, seconds=config.seconds, clock=context.clock)
        ways = {PLAIN: turn(one.model.run), COMPILED: turn(other.model.run)}
        turns = hold_contest(ways, repeats=config.repeats, context=context)
    return CompileRecord(
        provenance=made,
        turns=turns,
        model=one.model.name,
        device=config.device,
        frame_rate=float(held.index.frame_rate),
        compile_seconds=other.startup.compile_seconds,
        is_cached=is_cached,
        compared=held.num_frames,
        difference=apart,
        allowed=allowed_difference(config.device),
    )


def _check(config: CompileConfig, apart: float) -> None:
    allowed = allowed_difference(config.device)
    if apart > allowed:
        raise BackendError(
            f"{config.model_name} scores otherwise when it is compiled: by {apart:.2g} of the "
            f"largest score, and {allowed:g} is allowed, so nothing was timed; leave out "
            "--enable-compile"
        )
