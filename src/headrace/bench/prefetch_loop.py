"""Simulated training loop with a fixed step time, on a stock DataLoader.

A step sleeps instead of computing, because training on a GPU leaves the CPU to the workers.
"""

from contextlib import closing
from functools import partial
from statistics import mean
from typing import Final

import torch
from torch.utils.data import DataLoader

from headrace.bench.benchmark import Context
from headrace.bench.prefetch import (
    DEFAULT_FACTOR,
    PrefetchConfig,
    PrefetchRecord,
    PrefetchRepetition,
)
from headrace.measuring.interleaved import Stopwatch, interleave
from headrace.measuring.loader_adapters import ignore_worker_warning, iterate_batches
from headrace.profiling.resource_usage import memory_bytes
from headrace.runtime.waitable_source import Waiter

_SETTLING: Final = 2
"""Uncounted batches per worker."""
_CALIBRATED: Final = 12
"""Batches of the calibration."""
_MIN_BATCHES, _MAX_BATCHES = 12, 300
"""Min and max counted batches of a repetition."""


def measure_prefetch(config: PrefetchConfig, context: Context) -> PrefetchRecord:
    """Time a loop over the same clips with every setting, interleaved, after a calibration.

    Raises:
        MediaError, StageError: a video cannot be read, or a worker fails.
        ConfigError: a video is too short for a clip.
    """
    provenance = context.provenance(config)
    context.on_progress("calibrating", 0, 0)
    with closing(PrefetchLoop(config, _CALIBRATED, context)) as calibration:
        load_ms = mean(calibration.take(DEFAULT_FACTOR, step_ms=0.0).intervals_ms)
    step_ms = load_ms if config.step_ms is None else config.step_ms
    fitting = round(config.seconds * 1e3 / max(load_ms, step_ms))
    settings = [
        (factor, is_pinned)
        for is_pinned in ((False, True) if torch.cuda.is_available() else (False,))
        for factor in sorted(config.prefetch_factor)
    ]
    batches = min(_MAX_BATCHES, max(_MIN_BATCHES, fitting))
    with closing(PrefetchLoop(config, batches, context)) as training:
        repetitions = interleave(
            settings,
            lambda setting: training.take(setting[0], is_pinned=setting[1], step_ms=step_ms),
            repeats=config.repeats,
            label=lambda setting: f"prefetch_factor={setting[0]}{', pinned' * setting[1]}",
            on_progress=context.on_progress,
        )
    height, width = config.size
    batch_frames = config.batch_size * config.clip_len
    return PrefetchRecord(
        provenance=provenance,
        workers=config.workers,
        batch_frames=batch_frames,
        batch_bytes=batch_frames * height * width * 3,
        load_ms=load_ms,
        step_ms=step_ms,
        turns=repetitions,
    )


class PrefetchLoop:
    """Training loop over the same clips; close it after use."""

    def __init__(self, config: PrefetchConfig, batches: int, context: Context) -> None:
        """Open the videos, without decoding.

        Args:
            config: Clips and number of workers.
            batches: Counted batches of a repetition.
            context: Index store and clock.

        Raises:
            MediaError: a video cannot be read.
            ConfigError: a video is too short for a clip.
        """
        self._config, self._batches, self._clock = config, batches, context.clock
        self._waiter = Waiter(context.clock)
        self._settling = _SETTLING * config.workers
        # More batches than counted, so that workers can prefetch until the last one.
        ahead = max(config.prefetch_factor) * config.workers
        items = (self._settling + batches + ahead) * config.batch_size
        self._clips = config.dataset(-(-items // len(config.videos)), context.store)

    def close(self) -> None:
        """Close the videos."""
        self._clips.close()

    def take(
        self, prefetch_factor: int, *, is_pinned: bool = False, step_ms: float
    ) -> PrefetchRepetition:
        """Train on the clips, worker startup included; time the counted batches.

        Args:
            prefetch_factor: Batches that each worker prefetches.
            is_pinned: Whether batches are in pinned memory.
            step_ms: Milliseconds of a training step.

        Raises:
            StageError: a worker failed; with the worker's message.
        """
        clock, config = self._clock, self._config
        waits_ms, intervals_ms, copies_ms = [], [], list[float]()
        train = partial(self._train, seconds=step_ms / 1e3, is_pinned=is_pinned)
        with ignore_worker_warning():
            loader = DataLoader(
                self._clips,
                batch_size=config.batch_size,
                num_workers=config.workers,
                prefetch_factor=prefetch_factor,
                pin_memory=is_pinned,
            )
        with closing(iterate_batches(loader)) as batches:
            for _ in range(self._settling):
                train(next(batches))
            watch, done_ns = Stopwatch(clock), clock.now_ns()
            for _ in range(self._batches):
                request_ns = clock.now_ns()
                batch = next(batches)
                arrival_ns = clock.now_ns()
                copies_ms += train(batch)
                before_ns, done_ns = done_ns, clock.now_ns()
                waits_ms.append((arrival_ns - request_ns) / 1e6)
                intervals_ms.append((done_ns - before_ns) / 1e6)
            times, memory = watch.stop(watch.seconds), memory_bytes()
        return PrefetchRepetition(
            **times.model_dump(),
            prefetch_factor=prefetch_factor,
            is_pinned=is_pinned,
            frames=self._batches * config.batch_size * config.clip_len,
            intervals_ms=tuple(intervals_ms),
            waits_ms=tuple(waits_ms),
            copies_ms=tuple(copies_ms),
            memory_bytes=memory,
        )

    def _train(
        self, batch: dict[str, torch.Tensor], *, seconds: float, is_pinned: bool
    ) -> list[float]:
        """Transfer a batch to the GPU, if any, and wait for the rest of a step of `seconds`.

        Returns the milliseconds the transfer blocked the loop; empty without a GPU.
        """
        if not torch.cuda.is_available():
            self._waiter.pause(seconds)
            return []
        start_ns = self._clock.now_ns()
        frames = batch["frames"].to("cuda", non_blocking=is_pinned)
        blocked_ms = (self._clock.now_ns() - start_ns) / 1e6
        self._waiter.pause(seconds)
        torch.cuda.current_stream(frames.device).synchronize()
        return [blocked_ms]
