"""The ways to random frames that are compared: what each draws, and how it is delivered."""

from dataclasses import dataclass
from typing import Final, Literal

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.experiments.baseline import SeekPerFrame
from headrace.experiments.delivery import DataLoaderDelivery, Delivery, LoaderDelivery
from headrace.profiling.provenance import Record
from headrace.report.numbers import decimal
from headrace.sampling.bias import design_effect, long_run_inflation, mate_lags
from headrace.sampling.bursts import Bursts
from headrace.sampling.frames import Permutation, Uniform
from headrace.sampling.sampler import Sampler
from headrace.training.datasets import FrameDataset
from headrace.training.epoch_sampler import EpochSampler
from headrace.training.loader import FrameLoader
from headrace.training.video_set import VideoSet

Way = Literal["baseline", "dataset", "naive", "look-ahead", "quarter", "permutation", "bursts"]
"""What `--strategies` takes."""

QUARTER: Final = 4
"""The memory is divided by this to show what less of it does."""


class Strategy(Record):
    """One way, and what it does to gradients; `docs/sampling.md` derives the numbers."""

    name: Way
    label: str
    """What tables call it."""
    how: str
    """What it is, in a sentence."""
    draws: str
    """Which frames it draws and what that is worth, in a sentence; alike for the same batches."""
    bias: float
    """How far the expected gradient may be off, in σ of a frame's gradient."""
    design_effect: float
    """Variance of a batch ÷ that of independent frames."""
    inflation: float
    """The same over ever more batches, as if drawn with replacement: the worst case."""
    why_not: str = ""
    """Why it cannot be run here; empty if it can."""


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
    lookahead = {"naive": 1, "bursts": _burst_lookahead(setting)}.get(way)
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
        label=_label(way, setting),
        how=_how(way, setting),
        draws=_draws(way, setting, inflation),
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


def _burst_lookahead(setting: Setting) -> int:
    """Return the least with which a burst is decoded once."""
    return (setting.frames_per_burst - 1) * setting.batch_size + 1


def _label(way: Way, setting: Setting) -> str:
    budget = setting.memory_budget
    return {
        "baseline": "baseline",
        "dataset": "FrameDataset",
        "naive": "naive",
        "look-ahead": f"look-ahead {_mebibytes(budget)}",
        "quarter": f"look-ahead {_mebibytes(budget / QUARTER)}",
        "permutation": f"permutation {_mebibytes(budget)}",
        "bursts": f"bursts of {setting.frames_per_burst}",
    }[way]


def _mebibytes(number: float) -> str:
    mebibytes = number / 2**20
    return f"{mebibytes:,.0f} MiB" if mebibytes >= 10 else f"{mebibytes:.2g} MiB"


def _how(way: Way, setting: Setting) -> str:
    return {
        "baseline": "a stock DataLoader; for each frame it opens the file, seeks and decodes",
        "dataset": "FrameDataset in a stock DataLoader; files stay open, a GOP is decoded once "
        "for all of its frames in a batch",
        "naive": "FrameLoader(lookahead=1); threads, files stay open, no frame is held for later",
        "look-ahead": "FrameLoader(); a GOP is decoded once for as many batches as fit the memory",
        "quarter": "the same in a quarter of the memory",
        "permutation": "FrameLoader(sampling=Permutation()), planned likewise",
        "bursts": f"FrameLoader(sampling=Bursts(frames_per_burst={setting.frames_per_burst}, "
        f"lanes={setting.batch_size}), lookahead={_burst_lookahead(setting)}); holds what its "
        "bursts need, however much memory there is",
    }[way]


def _draws(way: Way, setting: Setting, inflation: float) -> str:
    batch, size = setting.batch_size, setting.frames_per_burst
    if way == "permutation":
        return (
            "each frame once an epoch, in shuffled order. No bias, nothing alike in a batch but by "
            f"chance; a batch of {batch} is worth {batch} independent frames, and more over an "
            "epoch, because the noise evens out"
        )
    if way == "bursts":
        return (
            f"each frame once an epoch, {size} from one decoding. No bias, and no two of a burst "
            f"in a batch; but they come soon after one another, and over many steps a batch of "
            f"{batch} is worth as little as {batch / inflation:.0f} independent frames "
            f"(D = 1 + {size - 1} x {setting.rho:g} = {decimal(inflation)}), until whole epochs "
            "even it out"
        )
    return (
        "independent frames, the very same batches. No bias, no more noise than random frames "
        f"have; a batch of {batch} is worth {batch}"
    )
