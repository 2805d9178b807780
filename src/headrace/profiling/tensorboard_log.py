"""TensorBoard log: the figures of each step as scalars."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psutil
import torch

from headrace.errors import ConfigError, reason_of
from headrace.profiling.session import Step

_MIB: Final = 1 << 20
"""Bytes."""


class TensorBoardLog:
    """Log of the steps, written at their output; about 1 ms per step. Not thread-safe."""

    def __init__(self, writer: Any) -> None:
        """Write to a `torch.utils.tensorboard.SummaryWriter`, which `close` closes."""
        self._writer = writer
        self._process = psutil.Process()
        self._last_ms: float | None = None
        self._has_gpu = torch.cuda.is_available()

    def add(self, step: Step, depths: Mapping[str, int]) -> None:
        """Write the figures of a step and the current depth of each queue.

        Raises:
            ConfigError: the log cannot be written.
        """
        with writing():
            for tag, value in self._scalars(step, depths):
                self._writer.add_scalar(tag, value, step.step)
        self._last_ms = step.ended_ms

    def close(self) -> None:
        """Write the buffered scalars, and close the log.

        Raises:
            ConfigError: the log cannot be written.
        """
        with writing():
            self._writer.close()

    def _scalars(self, step: Step, depths: Mapping[str, int]) -> Iterator[tuple[str, float]]:
        if self._last_ms is not None and step.ended_ms > self._last_ms:
            yield (
                "throughput/frames_per_second",
                step.frames * 1e3 / (step.ended_ms - self._last_ms),
            )
        yield from stage_scalars(step.work_ms, step.total_ms)
        if step.arrived_ms is not None:
            yield "latency_ms/newest_frame", step.ended_ms - step.arrived_ms
        if step.loss is not None:
            yield "loss", step.loss
        for queue, depth in depths.items():
            yield f"queue_depth/{queue}", depth
        yield "memory_mib/process", self._process.memory_info().rss / _MIB
        if self._has_gpu:
            yield "memory_mib/cuda_allocated", torch.cuda.memory_allocated() / _MIB


def stage_scalars(work_ms: Mapping[Any, float], total_ms: float) -> Iterator[tuple[str, float]]:
    """Yield (tag, value) for the time of each stage of a step and of the whole step."""
    for stage, milliseconds in work_ms.items():
        yield f"stage_ms/{stage}", milliseconds
    yield "step_ms/total", total_ms


@contextmanager
def writing() -> Iterator[None]:
    """Convert an OSError of the block to a ConfigError."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot write TensorBoard's log {error.filename or ''}: "
            f"{reason_of(error)}; give another folder with --tensorboard"
        ) from error
