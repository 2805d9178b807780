"""The ways to random frames that are compared: what each draws, and how it is delivered."""

from dataclasses import dataclass

from headrace.bench.sampling_record import QUARTER, Strategy, Way, burst_lookahead
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.measuring.loader_adapters import DataLoaderDelivery, LoaderDelivery
from headrace.measuring.seek_baseline import SeekPerFrame
from headrace.measuring.steady_state import Delivery
from headrace.sampling.bias import design_effect, long_run_inflation, mate_lags
from headrace.sampling.bursts import Bursts
from headrace.sampling.frames import Permutation, Uniform
from headrace.sampling.sampler import Sampler
from headrace.training.datasets import FrameDataset
from headrace.training.epoch_sampler import EpochSampler
from headrace.training.loader import FrameLoader
from headrace.training.video_set import VideoSet


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every way is given."""

    videos: VideoSet
    batch_size: int
    size: tuple[int, int]
    """(height, width) of the frames."""
    memory_budget: int
    """Bytes."""
    frames_per_burst: int
    workers: int
    rho: float
    """Correlation of the gradients of two frames of a burst."""
    store: IndexStore | None = None

    @property
    def frame_bytes(self) -> int:
        """Of a frame at the size of the model, uint8 RGB."""
        return self.size[0] * self.size[1] * 3


def open_way(way: Way, setting: Setting) -> Delivery:
    """Return what delivers; nothing runs yet.

    Raises:
        ConfigError: it is not possible with these videos, or in this memory.
    """
    if way in ("baseline", "dataset"):
        return _from_data_loader(way, setting)
    budget = setting.memory_budget // (QUARTER if way == "quarter" else 1)
    lookahead = {
        "naive": 1,
        "bursts": burst_lookahead(setting.frames_per_burst, setting.batch_size),
    }.get(way)
    loader = FrameLoader(
        [index.source for index in setting.videos.indexes],
        batch_size=setting.batch_size,
        size=setting.size,
        sampling=sampler_of(way, setting),
        memory_budget=budget,
        lookahead=lookahead,
        workers=setting.workers,
        store=setting.store,
    )
    return LoaderDelivery(loader)


def sampler_of(way: Way, setting: Setting) -> Sampler:
    """Return what a way draws frames with; most draw the very same ones."""
    if way == "permutation":
        return Permutation()
    if way == "bursts":
        return Bursts(frames_per_burst=setting.frames_per_burst, lanes=setting.batch_size)
    return Uniform()


def describe_way(way: Way, setting: Setting) -> Strategy:
    """Return a way with its statistics, and whether it can be run.

    Only those that are there for comparison may be impossible: a quarter of the memory, and bursts.

    Raises:
        ConfigError: another one is not possible.
    """
    size = setting.frames_per_burst if way == "bursts" else 1
    lags = mate_lags(size, setting.batch_size, setting.batch_size)
    effect, inflation = design_effect(setting.rho, lags), long_run_inflation(setting.rho, lags)
    why_not = ""
    try:
        open_way(way, setting)
    except ConfigError as error:
        if way not in ("quarter", "bursts"):
            raise
        why_not = str(error)
    return Strategy(
        name=way,
        bias=0.0,  # all of them are uniform over frames
        design_effect=effect,
        inflation=inflation,
        why_not=why_not,
    )


def _from_data_loader(way: Way, setting: Setting) -> DataLoaderDelivery:
    videos = setting.videos
    sources = [index.source for index in videos.indexes]
    is_baseline = way == "baseline"
    return DataLoaderDelivery(
        SeekPerFrame(videos, setting.size)
        if is_baseline
        else FrameDataset(sources, size=setting.size, store=setting.store),
        EpochSampler(videos.population, sampler_of(way, setting)),
        batch_size=setting.batch_size,
        workers=setting.workers,
        batch_bytes=setting.batch_size * setting.frame_bytes,
    )
