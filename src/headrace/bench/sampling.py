"""Random frames delivered in several ways from the user's videos, timed beside a baseline."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from headrace.bench.benchmark import Context
from headrace.bench.config import BenchmarkConfig
from headrace.bench.sampling_record import LADDER, WAYS, SamplingRecord, Way, label
from headrace.errors import ConfigError
from headrace.measuring.config_fields import FrameSize, Option
from headrace.measuring.interleaved import take_turns
from headrace.measuring.steady_state import take_turn
from headrace.sampling.rho import TAKEN_RHO
from headrace.sizes import parse_bytes

if TYPE_CHECKING:
    from headrace.bench.sampling_variants import Setting


@dataclass(frozen=True, kw_only=True)
class SamplingConfig(BenchmarkConfig):
    """What is measured; words that a `FrameLoader` has mean the same here."""

    batch_size: Annotated[int, Option("Frames in a batch.", least=1)] = 128
    size: FrameSize = (256, 256)
    memory: Annotated[str, Option("For frames that wait; like 256MiB or 1GiB.")] = "1GiB"
    """One of the strategies has a quarter of it."""
    burst: Annotated[int, Option("Frames in a burst.", least=2)] = 8
    rho: Annotated[
        float, Option("Correlation of the gradients of two frames of a burst.", least=0, most=1)
    ] = TAKEN_RHO
    workers: Annotated[
        int, Option("Processes or threads that decode, the same for all.", least=1)
    ] = 2
    strategies: Annotated[tuple[Way, ...], Option("Which to measure; the baseline always is.")] = (
        WAYS
    )
    seconds: Annotated[
        float, Option("How long each turn is measured; warming up comes on top.", above=0)
    ] = 10.0
    """Warming up takes at most six times as long."""
    repeats: Annotated[int, Option("Turns of each strategy.", least=1)] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_bytes(self.memory)

    @property
    def ways(self) -> tuple[Way, ...]:
        """What is measured, the baseline first."""
        return tuple(way for way in WAYS if way == "baseline" or way in self.strategies)


def among_all(videos: tuple[str, ...]) -> SamplingConfig:
    """Return what is enough among other experiments: the baseline and ever more memory."""
    return SamplingConfig(
        videos=videos,
        batch_size=32,
        memory="256MiB",
        strategies=LADDER,
        seconds=1.5,
        repeats=2,
    )


def measure_sampling(config: SamplingConfig, context: Context) -> SamplingRecord:
    """Prove that frames are equal, then time `config.repeats` turns of each strategy.

    Nothing else should run on the machine.

    Raises:
        ConfigError: a batch is larger than the set, or the memory does not hold three batches.
        MediaError: a video cannot be read, or the baseline's frames are not headrace's.
        StageError: a worker of a DataLoader failed.
    """
    from headrace.bench.frame_equality import check_equal
    from headrace.bench.sampling_variants import describe_way, open_way

    made = context.provenance(config, strategies=config.ways)
    setting = _setting(config, context)
    videos = setting.videos
    strategies = tuple(describe_way(way, setting) for way in config.ways)
    compared = check_equal(setting)
    turns = take_turns(
        [each.name for each in strategies if not each.why_not],
        lambda way: take_turn(way, open_way(way, setting), config.seconds, context.clock),
        repeats=config.repeats,
        label=lambda way: label(way, setting.memory_budget, config.burst),
        on_progress=context.on_progress,
    )
    return SamplingRecord(
        provenance=made,
        videos=len(videos.indexes),
        frames=videos.population.num_frames,
        gops=videos.population.num_gops,
        batch_size=config.batch_size,
        workers=config.workers,
        memory_budget=setting.memory_budget,
        burst=config.burst,
        rho=config.rho,
        compared=compared,
        strategies=strategies,
        turns=turns,
    )


def _setting(config: SamplingConfig, context: Context) -> "Setting":
    from headrace.bench.sampling_variants import Setting
    from headrace.training.video_set import VideoSet

    videos = VideoSet.open(config.videos, store=context.store)
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
        store=context.store,
    )
