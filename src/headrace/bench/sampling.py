"""Configuration, record and variants of `bench sampling`: random frames against a baseline."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from pydantic import Field, PositiveInt

from headrace.bench.benchmark import BenchmarkRecord
from headrace.bench.config import BatchSize, BenchmarkConfig
from headrace.config_fields import FrameSize, Option
from headrace.measuring.steady_state import DeliveryRepetition
from headrace.profiling.number_format import decimal
from headrace.profiling.provenance import Record
from headrace.sampling.bias import DEFAULT_RHO
from headrace.units import parse_bytes

Variant = Literal["baseline", "dataset", "naive", "look-ahead", "quarter", "permutation", "bursts"]
"""Values of `--strategies`."""
VARIANTS: Final[tuple[Variant, ...]] = get_args(Variant)
LADDER: Final[tuple[Variant, ...]] = ("naive", "quarter", "look-ahead")
"""Variants with equal frames and increasing memory: none, a quarter, all."""
QUARTER: Final = 4
"""Divisor of the memory for the variant with less memory."""


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(BenchmarkConfig):
    """Options of `bench sampling`; names as in `FrameLoader`."""

    batch_size: BatchSize = 128
    size: FrameSize = (256, 256)
    memory_budget: Annotated[str, Option("Memory for buffered frames, such as 256MiB.")] = "1GiB"
    """One variant has a quarter of it."""
    burst: Annotated[int, Option("Frames per burst.", least=2)] = 8
    rho: Annotated[
        float, Option("Intraclass correlation of gradients within a burst.", least=0, most=1)
    ] = DEFAULT_RHO
    workers: Annotated[int, Option("Decoding processes or threads of each strategy.", least=1)] = 2
    strategies: Annotated[
        tuple[Variant, ...], Option("Strategies to compare with the baseline.")
    ] = VARIANTS
    seconds: Annotated[float, Option("Seconds per repetition, without its warm-up.", above=0)] = (
        10.0
    )
    """Warm-up takes at most six times as long."""
    repeats: Annotated[int, Option("Repetitions per strategy.", least=1)] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_bytes(self.memory_budget)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Measured variants, the baseline first."""
        return tuple(
            variant for variant in VARIANTS if variant == "baseline" or variant in self.strategies
        )


class StrategyRecord(Record):
    """One variant and its effect on gradients; `docs/explanation/sampling.md` derives it."""

    name: Variant
    bias: float
    """Max bias of the expected gradient, in σ of a frame's gradient."""
    design_effect: float
    """Variance of a batch ÷ that of independent frames."""
    inflation: float
    """Statistical inefficiency: the same over many batches, for draws with replacement (the worst
    case)."""
    why_not: str = ""
    """Reason it cannot run here; empty if it can."""


class SamplingRecord(BenchmarkRecord):
    """Repetitions of all variants."""

    version: Literal[2] = 2
    """Version of the layout; version 1 contained sentences."""
    videos: PositiveInt
    frames: PositiveInt
    """Frames of all videos."""
    gops: PositiveInt
    batch_size: PositiveInt
    workers: PositiveInt
    memory_budget: PositiveInt
    """Bytes."""
    burst: PositiveInt
    """Frames in a burst."""
    rho: Annotated[float, Field(ge=0, le=1)]
    """Assumed correlation of the gradients of two frames of a burst."""
    compared: PositiveInt
    """Frames compared bit for bit between the baseline and headrace."""
    strategies: tuple[StrategyRecord, ...]
    turns: tuple[DeliveryRepetition, ...]
    """In timing order; interleaved."""


def label(variant: Variant, source: SamplingConfig | SamplingRecord) -> str:
    """Return the display name of a variant: `look-ahead 256 MiB`."""
    memory_budget = parse_bytes(source.memory_budget)
    return {
        "baseline": "baseline",
        "dataset": "FrameDataset",
        "naive": "naive",
        "look-ahead": f"look-ahead {_mebibytes(memory_budget)}",
        "quarter": f"look-ahead {_mebibytes(memory_budget / QUARTER)}",
        "permutation": f"permutation {_mebibytes(memory_budget)}",
        "bursts": f"bursts of {source.burst}",
    }[variant]


def how(variant: Variant, record: SamplingRecord) -> str:
    """Return the description of a variant."""
    batch, burst = record.batch_size, record.burst
    return {
        "baseline": "a stock DataLoader; for each frame it opens the file, seeks and decodes",
        "dataset": "FrameDataset in a stock DataLoader; files stay open, a GOP is decoded once "
        "for all of its frames in a batch",
        "naive": "FrameLoader(lookahead=1); decodes in threads, keeps files open, buffers nothing",
        "look-ahead": "FrameLoader(); a GOP is decoded once for as many batches as fit the memory",
        "quarter": "the same with a quarter of the memory",
        "permutation": "FrameLoader(sampling=ShuffledFrames()), planned in the same way",
        "bursts": f"FrameLoader(sampling=Bursts(frames_per_burst={burst}, lanes={batch}), "
        f"lookahead={burst_lookahead(burst, batch)}); buffers its bursts, with any memory budget",
    }[variant]


def draws(strategy: StrategyRecord, record: SamplingRecord) -> str:
    """Return the description of the frames a variant draws and of their ESS."""
    batch, burst = record.batch_size, record.burst
    if strategy.name == "permutation":
        return (
            "each frame once per epoch, in shuffled order. No bias; frames of one GOP share a "
            f"batch only by chance. The effective sample size (ESS) of a batch of {batch} is "
            f"{batch}; over an epoch it is larger, because noise averages out"
        )
    if strategy.name == "bursts":
        return (
            f"each frame once per epoch, in bursts of {burst} decoded together. No bias; frames of "
            "a burst never share a batch, but consecutive batches share bursts. So the "
            f"long-run effective sample size (ESS) of a batch of {batch} is "
            f"{batch / strategy.inflation:.0f} (statistical inefficiency 1 + {burst - 1} x "
            f"{record.rho:g} = {decimal(strategy.inflation)}), until full epochs average it out"
        )
    return (
        "independent frames, in identical batches. No bias and no additional noise; the effective "
        f"sample size (ESS) of a batch of {batch} is {batch}"
    )


def burst_lookahead(burst: int, batch_size: int) -> int:
    """Return the smallest lookahead that decodes each burst once."""
    return (burst - 1) * batch_size + 1


def _mebibytes(number: float) -> str:
    mebibytes = number / 2**20
    return f"{mebibytes:,.0f} MiB" if mebibytes >= 10 else f"{mebibytes:.2g} MiB"
