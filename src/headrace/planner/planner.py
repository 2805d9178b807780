"""Planner: comparison of strategies for random batches from these videos on this machine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from headrace.decode.index_store import IndexStore
from headrace.errors import MediaError
from headrace.loaders.hold_choice import LookaheadWindow
from headrace.loaders.planned_loader import max_open_files
from headrace.loaders.video_set import VideoSet
from headrace.measuring.interleaved import OnProgress, interleave, unseen
from headrace.planner.decode_speed import (
    MeasuredSpeed,
    SpillEstimate,
    estimate_spill,
    measure_speed,
)
from headrace.planner.plan_config import PlanConfig
from headrace.planner.strategy_cost import PlanProbe, run_probe, simulate
from headrace.profiling.machine import describe_machine
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.processor_affinity import available_cores
from headrace.sampling.clip_samplers import RandomClips
from headrace.sampling.decode_cost import DecodeCost
from headrace.sampling.frame_samplers import Bursts
from headrace.sampling.population import Population
from headrace.sampling.recommendation import (
    Recommendation,
    Reencode,
    recommend,
    reencode,
    short_gops,
)
from headrace.sampling.sampler import Sampler
from headrace.sampling.strategies import (
    Budget,
    CostOf,
    Noise,
    Strategy,
    check_batch,
    compare,
    compare_clips,
)
from headrace.units import parse_bytes
from headrace.video.source import Source


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Contents of the videos."""

    videos: int
    frames: int
    gops: int
    gop_of_a_frame: float
    """Mean length of a frame's GOP: long GOPs weigh more."""
    longest_gop: int
    left_out: tuple[MediaError, ...]
    """Errors of unreadable videos."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Strategies with predictions and measurements, and the recommended one."""

    config: PlanConfig
    noise: Noise
    contents: Contents
    decoding: MeasuredSpeed
    strategies: tuple[Strategy, ...]
    trials: dict[str, PlanProbe]
    """Strategy → figures of a measured run; empty unless requested."""
    recommendation: Recommendation
    spill: SpillEstimate | None
    """Cost and gain of frames stored on a disk; None if no codec packs them."""
    reencode: Reencode
    """Cost and gain of proxies with short GOPs."""
    cores: int
    """Usable cores of this process."""

    @property
    def memory_bytes(self) -> int:
        """Memory budget in bytes."""
        return parse_bytes(self.config.memory_budget)

    @property
    def spills(self) -> bool:
        """Whether the loader reads frames from the requested disk: it is faster, and needed."""
        best, spill = self.recommendation, self.spill
        if self.config.spill is None or spill is None or not spill.fits:
            return False
        is_needed = self.config.target is None or not best.reaches_target
        return is_needed and spill.later_epochs > best.strategy.frames_per_second

    @property
    def frames_per_second(self) -> float:
        """Expected frames per second of the recommended loader, once the start is over."""
        best = self.recommendation.strategy.frames_per_second
        return self.spill.later_epochs if self.spill and self.spills else best

    @property
    def others(self) -> float:
        """Max cores kept busy by other programs during timings."""
        others = [self.decoding.others, *(trial.others for trial in self.trials.values())]
        return max(cores or 0.0 for cores in others)


def plan(
    videos: Sequence[Source | str],
    config: PlanConfig | None = None,
    *,
    workers: int | None = None,
    on_progress: OnProgress = unseen,
    store: IndexStore | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Plan:
    """Return a plan: open the indexes, time decoding for about 4 s, compare the strategies.

    Trials take up to seven times `config.trial_seconds` per strategy.

    Args:
        videos: Paths of the videos. Unreadable videos are skipped and listed in the plan.
        config: Options of the plan.
        workers: Decoding threads; None: one per usable core of this process.
        on_progress: Called at each step.
        store: Store of indexes; None: the user's cache folder.
        clock: Clock for the timings.

    Raises:
        ConfigError: no video can be read, a batch is larger than the data set, or the memory does
            not hold three batches.
        MediaError: none of the sampled GOPs can be decoded.
    """
    config = config or PlanConfig()
    workers = len(available_cores()) if workers is None else workers
    opened = VideoSet.open(
        videos,
        skip_bad=True,
        index_store=store,
        on_progress=lambda done: on_progress("indexing", done, len(videos)),
    )
    clips, codec_bytes = _clips(config, opened), workers * opened.codec_bytes
    budget_of = partial(loader_budget, config, opened.population.gop_lengths, codec_bytes)
    budget = budget_of()
    on_progress("timing", 0, 0)
    max_open, noise = max_open_files(parse_bytes(config.memory_budget)), Noise(rho=config.rho)
    decoding = measure_speed(opened, config.size, workers=workers, max_open=max_open, clock=clock)
    simulated = partial(_simulated_cost, opened.population, config, on_progress)
    strategies = _strategies(config, opened, clips, decoding, noise, budget_of, simulated)
    recommendation = recommend(strategies, config.target)
    probe = partial(run_probe, opened, workers=workers, store=store, clock=clock)
    return Plan(
        config=config,
        noise=noise,
        contents=_contents(opened),
        decoding=decoding,
        strategies=strategies,
        trials=_probe_all(probe, strategies, config, on_progress),
        recommendation=recommendation,
        spill=estimate_spill(opened.population, decoding, config.spill),
        reencode=_estimate_proxies(
            opened, strategies, recommendation.strategy, config, budget, on_progress
        ),
        cores=describe_machine().usable_cores,
    )


def _strategies(
    config: PlanConfig,
    videos: VideoSet,
    clips: RandomClips | None,
    decoding: MeasuredSpeed,
    noise: Noise,
    budget_of: Callable[..., Budget],
    simulated: Callable[[Budget], CostOf],
) -> tuple[Strategy, ...]:
    """Return the strategies, with and without packed frames; biased strategies last."""
    budget = budget_of()
    cost_of = simulated(budget)
    if clips is None:
        strategies = compare(
            videos.population.gop_lengths,
            budget,
            decoding.speed,
            noise=noise,
            target=config.target,
            frames_per_burst=config.frames_per_burst,
            cost_of=cost_of,
        )
    else:
        strategies = compare_clips(clips, budget, decoding.speed, cost_of)
    packed = _packed(strategies, decoding, budget_of, simulated)
    return tuple(sorted((*strategies, *packed), key=lambda row: row.bias_bound > 0))


def _packed(
    strategies: tuple[Strategy, ...],
    decoding: MeasuredSpeed,
    budget_of: Callable[[int], Budget],
    cost_of: Callable[[Budget], CostOf],
) -> Iterator[Strategy]:
    """Yield each strategy with a look-ahead, its waiting frames packed by the best codec."""
    for row in strategies:
        if row.sampler is None or row.lookahead <= max(1, row.sampler.traits.num_frames or 1):
            continue
        if isinstance(row.sampler, Bursts) or not decoding.packed:
            continue
        rows = []
        for packed in decoding.packed:
            budget = budget_of(packed.bytes_per_frame)
            is_once = not row.sampler.traits.has_replacement
            lookahead = budget.lookahead_once if is_once else budget.lookahead
            rows.append(
                replace(
                    row,
                    name=row.name.replace("look-ahead", "packed"),
                    lookahead=lookahead,
                    budget=budget,
                    cost=cost_of(budget)(row.sampler, lookahead),
                    speed=replace(
                        row.speed,
                        seconds_per_packed=packed.pack_seconds,
                        seconds_per_unpacked=packed.unpack_seconds,
                    ),
                    words=f"the batches of {row.name}, planned {lookahead:,} requests ahead: "
                    f"waiting frames are packed by {packed.codec} into 1/{packed.ratio:.1f} of the "
                    "bytes, so that more of them fit",
                    hold="packed",
                )
            )
        yield max(rows, key=lambda row: row.frames_per_second)


def _clips(config: PlanConfig, videos: VideoSet) -> RandomClips | None:
    """Return the clips to draw; None: single frames.

    Raises:
        ConfigError: a number is out of range, a batch of frames is larger than the data set, or a
            video is too short for a clip and `boundary` does not skip it.
    """
    if config.num_frames is None:
        check_batch(config.samples_per_batch, videos.population.num_frames)
        return None
    clips = RandomClips(
        num_frames=config.num_frames, stride=config.stride, fps=config.fps, boundary=config.boundary
    )
    clips.shape.starts(videos.population)
    return clips


def _contents(videos: VideoSet) -> Contents:
    lengths = videos.population.gop_lengths
    return Contents(
        videos=len(videos.indexes),
        frames=int(lengths.sum()),
        gops=len(lengths),
        gop_of_a_frame=float(lengths @ lengths) / int(lengths.sum()),
        longest_gop=int(lengths.max()),
        left_out=videos.skipped,
    )


def loader_budget(
    config: PlanConfig,
    gop_lengths: NDArray[np.int64],
    codec_bytes: int,
    packed_bytes: int | None = None,
) -> Budget:
    """Return a loader's budget for the memory of a plan.

    Args:
        config: Memory, batches and frame size.
        gop_lengths: Frames of each GOP, int64 [G].
        codec_bytes: Memory of all decoders.
        packed_bytes: Bytes of a packed waiting frame; None: frames wait as pixels.
    """
    frame_bytes = config.size[0] * config.size[1] * 3
    window, once = (
        LookaheadWindow.of(
            gop_lengths,
            memory_budget=parse_bytes(config.memory_budget),
            size=config.size,
            frame_bytes=frame_bytes,
            later_bytes=packed_bytes,
            codec_bytes=codec_bytes,
            batch_frames=config.frames_per_batch,
            sample_frames=config.num_frames or 1,
            each_once=each_once,
        )
        for each_once in (False, True)
    )
    return Budget(
        batch_size=config.frames_per_batch,
        frame_bytes=frame_bytes,
        packed_bytes=packed_bytes,
        later_frames=window.later_frames,
        lookahead=window.lookahead,
        lookahead_once=once.lookahead,
    )


def _simulated_cost(
    population: Population, config: PlanConfig, on_progress: OnProgress, budget: Budget
) -> CostOf:
    def cost_of(sampler: Sampler, lookahead: int) -> DecodeCost:
        on_progress(f"planning {type(sampler).__name__}", 0, 0)
        return simulate(
            population,
            sampler,
            lookahead=lookahead,
            capacity=budget.later_frames,
            batch_size=config.samples_per_batch,
        )

    return cost_of


def _estimate_proxies(
    videos: VideoSet,
    strategies: tuple[Strategy, ...],
    best: Strategy,
    config: PlanConfig,
    budget: Budget,
    on_progress: OnProgress,
) -> Reencode:
    look_ahead = next(row for row in strategies if row.name == "look-ahead")
    population, cost = videos.population, None
    if config.num_frames is not None:
        assert look_ahead.sampler is not None
        lengths = [short_gops(int(frames)) for frames in population.frames_per_video]
        short = Population.of(lengths, times=population.timed())
        cost_of = _simulated_cost(short, config, on_progress, budget)
        cost = cost_of(look_ahead.sampler, look_ahead.lookahead)
    sizes = np.array([index.info.upright_size for index in videos.indexes], np.float64)
    pixels = float(np.average(sizes.prod(axis=1), weights=population.frames_per_video))
    return reencode(
        population.gop_lengths,
        look_ahead,
        before=best.frames_per_second,
        pixels=pixels,
        target=config.target,
        cost=cost,
    )


def _probe_all(
    probe: Callable[..., PlanProbe],
    strategies: tuple[Strategy, ...],
    config: PlanConfig,
    on_progress: OnProgress,
) -> dict[str, PlanProbe]:
    """Run all feasible strategies; `probe` is `run_probe` with its first arguments bound."""
    if config.trial_seconds is None:
        return {}
    runnable = [row for row in strategies if row.is_feasible and row.sampler is not None]

    def take(row: Strategy) -> PlanProbe:
        return probe(
            row.sampler,
            lookahead=row.lookahead,
            batch_size=config.samples_per_batch,
            size=config.size,
            memory_budget=parse_bytes(config.memory_budget),
            hold=row.hold,
            rho=config.rho,
            seconds=config.trial_seconds,
        )

    probes = interleave(
        runnable, take, repeats=1, label=lambda row: f"running {row.name}", on_progress=on_progress
    )
    return {row.name: probe for row, probe in zip(runnable, probes, strict=True)}
