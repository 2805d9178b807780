"""Plan: which way to draw batches from these videos, on this machine, in so much memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from headrace.decode.index_store import IndexStore
from headrace.errors import MediaError
from headrace.experiments.contend import take_turns
from headrace.experiments.decode_speed import MeasuredSpeed, measure_speed
from headrace.experiments.plan_config import PlanConfig
from headrace.experiments.progress import OnProgress, unseen
from headrace.experiments.rehearsal import rehearse
from headrace.experiments.trial import Trial, run_trial
from headrace.profiling.machine import describe_machine
from headrace.runtime.affinity import available_cores
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.sampling.costs import DecodeCost
from headrace.sampling.recommendation import Recommendation, recommend
from headrace.sampling.reencode import Reencode, reencode
from headrace.sampling.sampler import Sampler
from headrace.sampling.strategies import Budget, CostOf, Noise, Strategy, check_batch, compare
from headrace.sizes import parse_bytes
from headrace.training.open_files import max_open_files
from headrace.training.video_set import VideoSet
from headrace.training.window import Window
from headrace.video.source import Source


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What the videos are."""

    videos: int
    frames: int
    gops: int
    gop_of_a_frame: float
    """Frames in the GOP of a frame, on average over frames: long GOPs weigh more."""
    longest_gop: int
    left_out: tuple[MediaError, ...]
    """Why other videos cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Strategies with what is predicted and measured of them, and advice."""

    config: PlanConfig
    noise: Noise
    contents: Contents
    decoding: MeasuredSpeed
    strategies: tuple[Strategy, ...]
    trials: dict[str, Trial]
    """Name of a strategy → what it did; empty unless trials were asked for."""
    recommendation: Recommendation
    reencode: Reencode
    """What copies with short GOPs would cost and gain."""
    cores: int
    """Those this process may use."""

    @property
    def memory_bytes(self) -> int:
        """The budget as a number."""
        return parse_bytes(self.config.memory_budget)

    @property
    def others(self) -> float:
        """The most cores that other programs kept busy while something was timed."""
        others = [self.decoding.others, *(trial.others for trial in self.trials.values())]
        return max(each or 0.0 for each in others)


def plan(
    videos: Sequence[Source | str],
    config: PlanConfig | None = None,
    *,
    workers: int | None = None,
    on_progress: OnProgress = unseen,
    store: IndexStore | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Plan:
    """Open the indexes, decode for about 4 s to learn what it costs, and compare the strategies.

    Trials take up to seven times `config.trial_seconds` for each strategy.

    Args:
        videos: Their paths. Those that cannot be read are left out, and listed.
        config: What is planned for.
        workers: Decoding threads; None means one for each core this process may use.
        on_progress: Called often.
        store: Where indexes are kept; None means the user's cache folder.
        clock: What times.

    Raises:
        ConfigError: no video can be read, a batch is larger than the set, or the memory does not
            hold three batches.
        MediaError: nothing that was tried can be decoded.
    """
    config = config or PlanConfig()
    workers = len(available_cores()) if workers is None else workers
    opened = VideoSet.open(
        videos,
        skip_bad=True,
        store=store,
        on_progress=lambda done: on_progress("indexing", done, len(videos)),
    )
    contents = _contents(opened)
    check_batch(config.batch_size, contents.frames)
    budget = _budget(config, opened, workers)
    on_progress("timing", 0, 0)
    decoding, noise = _timed(config, opened, workers, clock), Noise(rho=config.rho)
    strategies = compare(
        opened.population.gop_lengths,
        budget,
        decoding.speed,
        noise=noise,
        target=config.target,
        frames_per_burst=config.frames_per_burst,
        cost_of=_rehearsing(opened, budget, on_progress),
    )
    run = partial(run_trial, opened, workers=workers, store=store, clock=clock)
    return Plan(
        config=config,
        noise=noise,
        contents=contents,
        decoding=decoding,
        strategies=strategies,
        trials=_trials(run, strategies, config, on_progress),
        recommendation=recommend(strategies, config.target),
        reencode=_copies(opened, strategies, config.target),
        cores=describe_machine().usable_cores,
    )


def _contents(videos: VideoSet) -> Contents:
    lengths = videos.population.gop_lengths
    return Contents(
        videos=len(videos.indexes),
        frames=int(lengths.sum()),
        gops=len(lengths),
        gop_of_a_frame=float(lengths @ lengths) / int(lengths.sum()),
        longest_gop=int(lengths.max()),
        left_out=videos.left_out,
    )


def _budget(config: PlanConfig, videos: VideoSet, workers: int) -> Budget:
    """Return what a `FrameLoader` would make of the memory."""
    frame_bytes = config.size[0] * config.size[1] * 3
    window, once = (
        Window.of(
            videos.population.gop_lengths,
            memory_budget=parse_bytes(config.memory_budget),
            frame_bytes=frame_bytes,
            codec_bytes=workers * videos.codec_bytes,
            batch_frames=config.batch_size,
            each_once=each_once,
        )
        for each_once in (False, True)
    )
    return Budget(
        batch_size=config.batch_size,
        frame_bytes=frame_bytes,
        later_frames=window.later_frames,
        lookahead=window.lookahead,
        lookahead_once=once.lookahead,
    )


def _timed(config: PlanConfig, videos: VideoSet, workers: int, clock: Clock) -> MeasuredSpeed:
    return measure_speed(
        videos,
        config.size,
        workers=workers,
        max_open=max_open_files(parse_bytes(config.memory_budget)),
        clock=clock,
    )


def _rehearsing(videos: VideoSet, budget: Budget, on_progress: OnProgress) -> CostOf:
    def cost_of(sampler: Sampler, lookahead: int) -> DecodeCost:
        on_progress(f"planning {type(sampler).__name__}", 0, 0)
        return rehearse(
            videos.population,
            sampler,
            lookahead=lookahead,
            capacity=budget.later_frames,
            batch_size=budget.batch_size,
        )

    return cost_of


def _copies(videos: VideoSet, strategies: tuple[Strategy, ...], target: float | None) -> Reencode:
    ahead = next(row for row in strategies if row.lookahead == row.budget.lookahead)
    population = videos.population
    sizes = np.array([index.info.upright_size for index in videos.indexes], np.float64)
    pixels = float(np.average(sizes.prod(axis=1), weights=population.frames_per_video))
    return reencode(population.gop_lengths, ahead, pixels=pixels, target=target)


def _trials(
    run: Callable[..., Trial],
    strategies: tuple[Strategy, ...],
    config: PlanConfig,
    on_progress: OnProgress,
) -> dict[str, Trial]:
    """Run what can be run; the first arguments of `run` are given already."""
    if config.trial_seconds is None:
        return {}
    runnable = [row for row in strategies if row.is_feasible and row.sampler is not None]

    def take(row: Strategy) -> Trial:
        return run(
            row.sampler,
            lookahead=row.lookahead,
            batch_size=config.batch_size,
            size=config.size,
            memory_budget=parse_bytes(config.memory_budget),
            rho=config.rho,
            seconds=config.trial_seconds,
        )

    trials = take_turns(
        runnable,
        take,
        repeats=1,
        label=lambda row: f"running {row.name}",
        on_progress=on_progress,
    )
    return {row.name: trial for row, trial in zip(runnable, trials, strict=True)}
