"""Batches of a live run, and the model runner."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.live.live_source import LiveFrame
from headrace.models.compute import Device
from headrace.models.model import Model
from headrace.models.outputs import describe_value
from headrace.models.results import Boxes, Labels
from headrace.preprocess.levels import build_preprocess
from headrace.preprocess.spec import PrepLevel

View = tuple[LiveFrame, ...]
"""Model input with one output: a frame, or the frames of a clip in order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ViewBatch:
    """Views of one size that share a model call, with the results of the stages so far."""

    views: tuple[View, ...]
    is_clips: bool
    tensor: torch.Tensor | None = None
    """Preprocessed views; None: before preprocessing, or after the model."""
    outputs: tuple[Any, ...] = ()
    """One model output per view; empty before the model."""

    @property
    def newest_ns(self) -> int:
        """Arrival of the newest frame; latency counts from this time."""
        return max(view[-1].arrived_ns for view in self.views)

    @property
    def shown_ns(self) -> int:
        """Oldest arrival among the displayed frames: the newest frame of each clip."""
        return min(view[-1].arrived_ns for view in self.views)

    @property
    def oldest_ns(self) -> int:
        """Arrival of the oldest frame of any view."""
        return min(view[0].arrived_ns for view in self.views)

    def pixels(self) -> NDArray[np.uint8]:
        """Return frames uint8 [N, H, W, 3] or clips uint8 [N, T, H, W, 3], RGB; a copy."""
        if not self.is_clips:
            return np.stack([view[0].pixels for view in self.views])
        return np.stack([np.stack([frame.pixels for frame in view]) for view in self.views])


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelRunner:
    """Preprocessing and model call of a batch."""

    prepare: Callable[[NDArray[np.uint8]], torch.Tensor]
    """Frames uint8 [N, H, W, 3], or clips [N, T, H, W, 3] -> model input, on the CPU."""
    run: Callable[[torch.Tensor], Any]
    """Model input on `device` -> output; called in one thread."""
    device: Device = "cpu"

    @classmethod
    def of_model(cls, model: Model[Any], prep_level: PrepLevel = "medium") -> "ModelRunner":
        """Return the runner of a prepared model, with its preprocessing."""
        prepare = build_preprocess(prep_level, model.input)
        return cls(prepare=prepare, run=model.run, device=model.compute.device)

    @classmethod
    def of_callable(
        cls, run: Callable[[torch.Tensor], Any], device: Device = "cpu"
    ) -> "ModelRunner":
        """Return the runner of a callable that takes raw frames.

        Args:
            run: Frames uint8 [N, 3, H, W], or clips uint8 [N, T, 3, H, W], RGB in [0, 255] -> one
                entry for each. Called in `torch.inference_mode`.
            device: Device of the argument.
        """

        def prepare(pixels: NDArray[np.uint8]) -> torch.Tensor:
            return torch.from_numpy(pixels).movedim(-1, -3)

        def run_and_wait(batch: torch.Tensor) -> Any:
            with torch.inference_mode():
                output = run(batch)
            if device != "cpu":
                # GPU calls return early, but latency includes the work.
                torch.cuda.current_stream().synchronize()
            return output

        return cls(prepare=prepare, run=run_and_wait, device=device)


def split_outputs(output: Any, count: int) -> tuple[Any, ...]:
    """Split the output of a batch into the outputs of its `count` frames or clips.

    Tensors, arrays, lists and tuples are split along the first dimension, dicts and results of
    headrace by value. With `count` 1, any other object is the output.

    Raises:
        ConfigError: the number of entries is not `count`.
    """
    if isinstance(output, Labels | Boxes):
        columns = {field.name: getattr(output, field.name) for field in fields(output)}
        return tuple(
            replace(output, **{name: column[k : k + 1] for name, column in columns.items()})
            for k in range(count)
        )
    if isinstance(output, Mapping):
        parts = {name: split_outputs(value, count) for name, value in output.items()}
        return tuple({name: part[k] for name, part in parts.items()} for k in range(count))
    if _has_entries(output) and len(output) == count:
        return tuple(output[k] for k in range(count))
    if count == 1:
        return (output,)
    raise ConfigError(
        f"the model got {count} frames and returned {describe_value(output)}; return one entry for "
        f"each frame, such as a tensor [{count}, ...], or give batch_size=1"
    )


def _has_entries(output: Any) -> bool:
    if isinstance(output, torch.Tensor | np.ndarray):
        return output.ndim > 0
    return isinstance(output, Sequence) and not isinstance(output, str) and not is_dataclass(output)
