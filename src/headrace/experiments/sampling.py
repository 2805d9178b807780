"""Random frames delivered in several ways from the user's videos, timed beside a baseline."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, get_args

import torch
from pydantic import PositiveInt

from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, DecodeError
from headrace.experiments.baseline import SeekPerFrame
from headrace.experiments.delivery import Turn, take_turn
from headrace.experiments.progress import OnProgress, unseen
from headrace.experiments.record import ExperimentRecord
from headrace.experiments.ways import Setting, Strategy, Way, describe_way, open_way
from headrace.profiling.machine import provenance
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sampling.frames import Uniform
from headrace.sampling.rho import TAKEN_RHO
from headrace.sizes import parse_bytes
from headrace.training.datasets import FrameDataset
from headrace.training.loader import FrameLoader
from headrace.training.video_set import VideoSet

WAYS: Final[tuple[Way, ...]] = get_args(Way)
_COMPARED: Final = 16
"""Frames held against the baseline's before anything is timed."""


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """What is measured; words that a `FrameLoader` has mean the same here."""

    videos: tuple[str, ...]
    """Paths."""
    batch_size: int = 128
    size: tuple[int, int] = (256, 256)
    """(height, width) of the frames."""
    memory: str = "1GiB"
    """For frames that wait; one of the strategies has a quarter of it."""
    burst: int = 8
    """Frames in a burst."""
    rho: float = TAKEN_RHO
    """Correlation of the gradients of two frames of a burst."""
    workers: int = 2
    """Processes of a DataLoader, or threads of a FrameLoader: the same for all, to be fair."""
    strategies: tuple[str, ...] = WAYS
    """Some of `WAYS`; the baseline is always among them."""
    seconds: float = 10.0
    """How long each turn is measured; warming up comes on top, at most six times as long."""
    repeats: int = 3
    """Turns of each strategy."""

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("burst", 2), ("workers", 1), ("repeats", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be >= {least}, got {getattr(self, name)}")
        if not self.seconds > 0:
            raise ConfigError(f"seconds must be > 0, got {self.seconds}")
        if not 0 <= self.rho <= 1:
            raise ConfigError(f"rho is a correlation in [0, 1], got {self.rho}")
        unknown = [name for name in self.strategies if name not in WAYS]
        if unknown:
            raise ConfigError(
                f"strategies must be among {', '.join(WAYS)}; got {', '.join(unknown)}"
            )
        parse_bytes(self.memory)

    @property
    def ways(self) -> tuple[Way, ...]:
        """What is measured, the baseline first."""
        return tuple(way for way in WAYS if way == "baseline" or way in self.strategies)


class SamplingRecord(ExperimentRecord):
    """What was measured."""

    videos: PositiveInt
    frames: PositiveInt
    """In all videos."""
    gops: PositiveInt
    batch_size: PositiveInt
    workers: PositiveInt
    compared: PositiveInt
    """Frames that came out equal, bit for bit, from the baseline and from headrace."""
    strategies: tuple[Strategy, ...]
    turns: tuple[Turn, ...]
    """As they were timed; strategies take turns, so that none has all the luck."""


def measure_sampling(
    config: SamplingConfig,
    *,
    command: Sequence[str] = (),
    on_progress: OnProgress = unseen,
    store: IndexStore | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> SamplingRecord:
    """Prove that frames are equal, then time `config.repeats` turns of each strategy.

    Nothing else should run on the machine.

    Args:
        config: What is measured.
        command: The command line it came from, if any.
        on_progress: Called before each turn.
        store: Where indexes are kept; None means the user's cache folder.
        clock: What times.

    Raises:
        ConfigError: there is no video, a batch is larger than the set, or the memory does not hold
            three batches.
        MediaError: a video cannot be read, or the baseline's frames are not headrace's.
        StageError: a worker of a DataLoader failed.
    """
    facts = {**asdict(config), "videos": len(config.videos), "strategies": config.ways}
    made = provenance(facts, command, clock)
    videos = VideoSet.open(config.videos, store=store)
    setting = _setting(config, videos, store)
    strategies = tuple(describe_way(way, setting) for way in config.ways)
    compared = check_equal(setting)
    possible = [each for each in strategies if not each.why_not]
    turns = []
    for number, each in enumerate(possible * config.repeats):
        on_progress(each.label, number, len(possible) * config.repeats)
        turns.append(take_turn(each.name, open_way(each.name, setting), config.seconds, clock))
    return SamplingRecord(
        provenance=made,
        videos=len(videos.indexes),
        frames=videos.population.num_frames,
        gops=videos.population.num_gops,
        batch_size=config.batch_size,
        workers=config.workers,
        compared=compared,
        strategies=strategies,
        turns=tuple(turns),
    )


def check_equal(setting: Setting, plain: SeekPerFrame | None = None) -> int:
    """Hold random frames of the baseline against those of a dataset and a loader of headrace.

    Returns how many were compared, at most 16. `plain` is the baseline.

    Raises:
        DecodeError: one differs in any bit, or cannot be decoded; names the frame.
    """
    videos, size = setting.videos, setting.size
    plain = plain or SeekPerFrame(videos, size)
    sources = [index.source for index in videos.indexes]
    count = min(_COMPARED, setting.batch_size, len(plain))
    with FrameLoader(
        sources,
        batch_size=count,
        size=size,
        sampling=Uniform(),
        memory_budget=4 * count * setting.frame_bytes,
        lookahead=1,
        workers=1,
        store=setting.store,
    ) as loader:
        loaded = next(iter(loader)).frames
    wanted = Uniform().order(videos.population, 0)[:count].tolist()
    with FrameDataset(sources, size=size, store=setting.store) as dataset:
        items = dataset.__getitems__(wanted)
    for frame, item, other in zip(wanted, items, loaded, strict=True):
        expected = plain[frame]
        if not (torch.equal(item["frame"], expected) and torch.equal(other, expected)):
            raise _unequal(setting, item["video"], item["index"])
    return count


def _setting(config: SamplingConfig, videos: VideoSet, store: IndexStore | None) -> Setting:
    frames = videos.population.num_frames
    if config.batch_size > frames:
        raise ConfigError(
            f"a batch of {config.batch_size} is larger than the set: the videos have {frames} "
            f"frames in all; at most {frames} are possible"
        )
    return Setting(
        videos=videos,
        batch_size=config.batch_size,
        size=config.size,
        memory_budget=parse_bytes(config.memory),
        frames_per_burst=config.burst,
        workers=config.workers,
        rho=config.rho,
        store=store,
    )


def _unequal(setting: Setting, video: int, place: int) -> DecodeError:
    index = setting.videos.indexes[video]
    return DecodeError(
        f"frame {place} of {index.source} (at {index.seconds(place):.3f} s) is not the same from "
        "the baseline and from headrace, so nothing was timed; `headrace doctor --parity` tells "
        "whether a linear read agrees with headrace",
        source=str(index.source),
        pts=int(index.pts[place]),
    )
