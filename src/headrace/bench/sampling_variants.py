"""Variants of `bench sampling`: sampler and loader of each."""

from dataclasses import dataclass
from typing import Final, Self

import torch

from headrace.bench.benchmark import Context
from headrace.bench.config import unequal_frame
from headrace.bench.sampling import (
    QUARTER,
    SamplingConfig,
    SamplingRecord,
    StrategyRecord,
    Variant,
    burst_lookahead,
    label,
)
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.loaders.datasets import FrameDataset
from headrace.loaders.epoch_sampler import EpochSampler
from headrace.loaders.frame_loader import FrameLoader
from headrace.loaders.video_set import VideoSet
from headrace.measuring.interleaved import interleave
from headrace.measuring.loader_adapters import DataLoaderDelivery, LoaderDelivery
from headrace.measuring.seek_baseline import SeekPerFrame
from headrace.measuring.steady_state import Delivery, time_delivery
from headrace.profiling.provenance import record_of
from headrace.sampling.bias import design_effect, long_run_inflation, mate_lags
from headrace.sampling.frame_samplers import Bursts, ShuffledFrames, UniformFrames
from headrace.sampling.sampler import Sampler
from headrace.units import parse_bytes
from headrace.video.source import Source

_COMPARED: Final = 16
"""Max frames compared with the baseline before timing."""


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

    def check_equal(self, plain: SeekPerFrame | None = None) -> int:
        """Compare random frames of the baseline with a dataset's and a loader's.

        Returns the number of compared frames, at most 16. `plain` is the baseline.

        Raises:
            DecodeError: a frame differs in any bit, or cannot be decoded; the message names it.
        """
        plain = plain or SeekPerFrame(self.videos, self.config.size)
        count = min(_COMPARED, self.config.batch_size, len(plain))
        with FrameLoader(
            self._sources,
            batch_size=count,
            size=self.config.size,
            sampling=UniformFrames(),
            memory_budget=4 * count * self._frame_bytes,
            lookahead=1,
            num_threads=1,
            index_store=self.store,
        ) as loader:
            loaded = next(iter(loader)).frames
        wanted = UniformFrames().order(self.videos.population, 0)[:count].tolist()
        with self._dataset() as dataset:
            items = dataset.__getitems__(wanted)
        for frame, item, pixels in zip(wanted, items, loaded, strict=True):
            expected = plain[frame]
            if not (torch.equal(item["frame"], expected) and torch.equal(pixels, expected)):
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

    def _dataset(self) -> FrameDataset:
        return FrameDataset(self._sources, size=self.config.size, index_store=self.store)
