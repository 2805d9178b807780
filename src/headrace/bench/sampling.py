"""Measurement of `bench sampling`: random frames by several strategies, and by a baseline."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self, get_args

from pydantic import Field, PositiveInt

from headrace.bench.benchmark import BenchmarkRecord, Context
from headrace.bench.config import BatchSize, BenchmarkConfig, unequal_frame
from headrace.config_fields import FrameSize, Option
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.loaders.video_set import VideoSet
from headrace.measuring.decode_counts import Delivery, DeliveryRepetition, time_delivery
from headrace.measuring.interleaved import interleave
from headrace.profiling.number_format import decimal
from headrace.profiling.provenance import Record, record_of
from headrace.sampling.bias import DEFAULT_RHO
from headrace.sampling.sampler import Sampler
from headrace.units import parse_bytes
from headrace.video.source import Source

if TYPE_CHECKING:
    from headrace.loaders.frame_dataset import FrameDataset
    from headrace.measuring.loader_adapters import SeekPerFrame

Variant = Literal["baseline", "dataset", "naive", "look-ahead", "quarter", "permutation", "bursts"]
"""Values of `--strategies`."""
VARIANTS: Final[tuple[Variant, ...]] = get_args(Variant)
LADDER: Final[tuple[Variant, ...]] = ("naive", "quarter", "look-ahead")
"""Variants with equal frames and increasing memory: none, a quarter, all."""
QUARTER: Final = 4
"""Divisor of the memory for the variant with less memory."""
_COMPARED: Final = 16
"""Max frames compared with the baseline before timing."""


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


def measure_sampling(config: SamplingConfig, context: Context) -> SamplingRecord:
    """Check that frames are equal, then time `config.repeats` repetitions of each strategy.

    Run it on an idle machine.

    Raises:
        ConfigError: a batch is larger than the data set, or the memory does not hold three batches.
        MediaError: a video cannot be read, or headrace's frames differ from the baseline's.
        StageError: a worker of a DataLoader failed.
    """
    provenance = context.provenance(config, strategies=config.variants)
    variants = SamplingVariants.open(config, context.store)
    strategies = tuple(map(variants.describe, config.variants))
    compared, population = variants.check_equal(), variants.videos.population
    repetitions = interleave(
        [strategy.name for strategy in strategies if not strategy.why_not],
        lambda variant: time_delivery(
            variant, variants.delivery(variant), config.seconds, context.clock
        ),
        repeats=config.repeats,
        label=lambda variant: label(variant, config),
        on_progress=context.on_progress,
    )
    return record_of(
        SamplingRecord,
        config,
        memory_budget=parse_bytes(config.memory_budget),
        provenance=provenance,
        videos=len(variants.videos.indexes),
        frames=population.num_frames,
        gops=population.num_gops,
        compared=compared,
        strategies=strategies,
        turns=repetitions,
    )


@dataclass(frozen=True, kw_only=True)
class SamplingVariants:
    """Loaders of random frames of some videos, one per variant."""

    config: SamplingConfig
    videos: VideoSet
    store: IndexStore | None = None

    @classmethod
    def open(cls, config: SamplingConfig, store: IndexStore | None) -> Self:
        """Open the videos.

        Raises:
            MediaError: a video cannot be read.
            ConfigError: a batch is larger than the data set.
        """
        videos = VideoSet.open(config.videos, index_store=store)
        frames = videos.population.num_frames
        if config.batch_size > frames:
            raise ConfigError(
                f"a batch of {config.batch_size} is larger than the set: the videos have {frames} "
                f"frames in all; at most {frames} are possible"
            )
        return cls(config=config, videos=videos, store=store)

    def delivery(self, variant: Variant) -> Delivery:
        """Return the loader of a variant; nothing runs yet.

        Raises:
            ConfigError: the variant is not possible with these videos or this memory.
        """
        from headrace.loaders.frame_dataset import EpochSampler
        from headrace.loaders.frame_loader import FrameLoader
        from headrace.measuring.loader_adapters import (
            DataLoaderDelivery,
            LoaderDelivery,
            SeekPerFrame,
        )

        config = self.config
        memory_budget = parse_bytes(config.memory_budget)
        if variant in ("baseline", "dataset"):
            return DataLoaderDelivery(
                SeekPerFrame(self.videos, config.size)
                if variant == "baseline"
                else self._dataset(),
                EpochSampler(self.videos.population, self.sampler(variant)),
                batch_size=config.batch_size,
                workers=config.workers,
                batch_bytes=config.batch_size * self._frame_bytes,
            )
        lookahead = {"naive": 1, "bursts": burst_lookahead(config.burst, config.batch_size)}
        loader = FrameLoader(
            self._sources,
            batch_size=config.batch_size,
            size=config.size,
            sampling=self.sampler(variant),
            memory_budget=memory_budget // (QUARTER if variant == "quarter" else 1),
            lookahead=lookahead.get(variant),
            num_threads=config.workers,
            index_store=self.store,
        )
        return LoaderDelivery(loader)

    def sampler(self, variant: Variant) -> Sampler:
        """Return the sampler of a variant; most variants share one."""
        from headrace.sampling.frame_samplers import Bursts, ShuffledFrames, UniformFrames

        if variant == "permutation":
            return ShuffledFrames()
        if variant == "bursts":
            return Bursts(frames_per_burst=self.config.burst, lanes=self.config.batch_size)
        return UniformFrames()

    def describe(self, variant: Variant) -> StrategyRecord:
        """Return the statistics of a variant, and whether it can run.

        Only `quarter` and `bursts` may be impossible.

        Raises:
            ConfigError: another variant is not possible.
        """
        from headrace.sampling.bias import design_effect, long_run_inflation, mate_lags

        batch, rho = self.config.batch_size, self.config.rho
        lags = mate_lags(self.config.burst if variant == "bursts" else 1, batch, batch)
        why_not = ""
        try:
            self.delivery(variant)
        except ConfigError as error:
            if variant not in ("quarter", "bursts"):
                raise
            why_not = str(error)
        return StrategyRecord(
            name=variant,
            bias=0.0,  # all of them are uniform over frames
            design_effect=design_effect(rho, lags),
            inflation=long_run_inflation(rho, lags),
            why_not=why_not,
        )

    def check_equal(self, plain: "SeekPerFrame | None" = None) -> int:
        """Compare random frames of the baseline with a dataset's and a loader's.

        Returns the number of compared frames, at most 16. `plain` is the baseline.

        Raises:
            DecodeError: a frame differs in any bit, or cannot be decoded; the message names it.
        """
        import torch

        from headrace.loaders.frame_loader import FrameLoader
        from headrace.measuring.loader_adapters import SeekPerFrame
        from headrace.sampling.frame_samplers import UniformFrames

        plain, uniform = plain or SeekPerFrame(self.videos, self.config.size), UniformFrames()
        count = min(_COMPARED, self.config.batch_size, len(plain))
        with FrameLoader(
            self._sources,
            batch_size=count,
            size=self.config.size,
            sampling=uniform,
            memory_budget=4 * count * self._frame_bytes,
            lookahead=1,
            num_threads=1,
            index_store=self.store,
        ) as loader:
            loaded = next(iter(loader)).frames
        wanted = uniform.order(self.videos.population, 0)[:count].tolist()
        with self._dataset() as dataset:
            items = dataset.__getitems__(wanted)
        for frame, item, pixels in zip(wanted, items, loaded, strict=True):
            expected = plain[frame]
            if not (torch.equal(item["frames"], expected) and torch.equal(pixels, expected)):
                index, frame_index = self.videos.indexes[item["video"]], item["index"]
                at = f" (at {index.seconds(frame_index):.3f} s)"
                raise unequal_frame(index, frame_index, "the baseline", at)
        return count

    @property
    def _sources(self) -> list[Source]:
        return [index.source for index in self.videos.indexes]

    @property
    def _frame_bytes(self) -> int:
        """Bytes of a frame at the model's size, uint8 RGB."""
        height, width = self.config.size
        return height * width * 3

    def _dataset(self) -> "FrameDataset":
        from headrace.loaders.frame_dataset import FrameDataset

        return FrameDataset(self._sources, size=self.config.size, index_store=self.store)
