"""Simulated training loop with a fixed step time, on a stock DataLoader.

A step sleeps instead of computing, because training on a GPU leaves the CPU to the workers.
"""

from contextlib import closing
from typing import Any, Final, Self

import torch
from torch.utils.data import DataLoader

from headrace.bench.benchmark import Context
from headrace.bench.prefetch_record import PrefetchConfig, PrefetchRepetition, PrefetchSetting
from headrace.loaders.datasets import VideoDataset
from headrace.measuring.interleaved import Stopwatch
from headrace.measuring.loader_adapters import failing_in_words, more_workers_than_cores
from headrace.profiling.resource_usage import memory_bytes
from headrace.runtime.clock import Clock
from headrace.runtime.waitable_source import Waiter

_SETTLING: Final = 2
"""Uncounted batches per worker."""


def has_gpu() -> bool:
    """Return whether a CUDA device is available."""
    return torch.cuda.is_available()


class PrefetchLoop:
    """Training loop over the same clips: `with PrefetchLoop(...) as loop: loop.take(...)`."""

    def __init__(self, config: PrefetchConfig, batches: int, context: Context) -> None:
        """Open the videos; nothing is decoded yet.

        Args:
            config: Clips and number of workers.
            batches: Counted batches of a repetition.
            context: Index store and clock.

        Raises:
            MediaError: a video cannot be read.
            ConfigError: a video is too short for a clip.
        """
        self._config = config
        self._batches = batches
        self._settling = _SETTLING * config.workers
        self._clock = context.clock
        # More batches than counted, so that workers can prefetch until the last one.
        ahead = max(config.prefetch_factor) * config.workers
        items = (self._settling + batches + ahead) * config.batch_size
        self._clips = VideoDataset(
            config.videos * -(-items // len(config.videos)),
            config.clip_len,
            config.stride,
            size=config.size,
            boundary=config.boundary,
            index_store=context.store,
        )
        self._clips.set_epoch(0)  # the same clips each time

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clips.close()

    def take(self, setting: PrefetchSetting, *, step_ms: float) -> PrefetchRepetition:
        """Train on the clips, worker startup included; time the counted batches.

        Args:
            setting: Prefetch setting.
            step_ms: Milliseconds of a training step.

        Raises:
            StageError: a worker failed; with the worker's message.
        """
        clock, config = self._clock, self._config
        waits_ms, intervals_ms, copies_ms = [], [], list[float]()
        step = _Step(clock, step_ms / 1e3, is_pinned=setting.is_pinned)
        with closing(failing_in_words(self._loader(setting))) as batches:
            for _ in range(self._settling):
                step.take(next(batches))
            watch, done_ns = Stopwatch(clock), clock.now_ns()
            for _ in range(self._batches):
                asked_ns = clock.now_ns()
                batch = next(batches)
                came_ns = clock.now_ns()
                copies_ms += step.take(batch)
                before_ns, done_ns = done_ns, clock.now_ns()
                waits_ms.append((came_ns - asked_ns) / 1e6)
                intervals_ms.append((done_ns - before_ns) / 1e6)
            spent, memory = watch.stop(watch.seconds), memory_bytes()
        return PrefetchRepetition(
            **spent.model_dump(),
            prefetch_factor=setting.prefetch_factor,
            is_pinned=setting.is_pinned,
            frames=self._batches * config.batch_size * config.clip_len,
            intervals_ms=tuple(intervals_ms),
            waits_ms=tuple(waits_ms),
            copies_ms=tuple(copies_ms),
            memory_bytes=memory,
        )

    def _loader(self, setting: PrefetchSetting) -> DataLoader[Any]:
        with more_workers_than_cores():
            return DataLoader(
                self._clips,
                batch_size=self._config.batch_size,
                num_workers=self._config.workers,
                prefetch_factor=setting.prefetch_factor,
                pin_memory=setting.is_pinned,
            )


class _Step:
    """One training step: transfer to the GPU, if any, and a wait."""

    def __init__(self, clock: Clock, seconds: float, *, is_pinned: bool) -> None:
        self._clock = clock
        self._waiter = Waiter(clock)
        self._seconds = seconds
        self._is_pinned = is_pinned
        self._has_gpu = has_gpu()

    def take(self, batch: dict[str, torch.Tensor]) -> list[float]:
        """Return the milliseconds the transfer blocked the loop; empty without a GPU."""
        if not self._has_gpu:
            self._waiter.pause(self._seconds)
            return []
        began_ns = self._clock.now_ns()
        moved = batch["frames"].to("cuda", non_blocking=self._is_pinned)
        held_ms = (self._clock.now_ns() - began_ns) / 1e6
        self._waiter.pause(self._seconds)
        torch.cuda.current_stream(moved.device).synchronize()
        return [held_ms]
