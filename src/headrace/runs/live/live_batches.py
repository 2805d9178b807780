"""Batches of a live run: frames or clips that go through a model together, and any model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import ConfigError
from headrace.live.source import LiveFrame
from headrace.models.compute import Device
from headrace.models.model import Model
from headrace.models.results import Boxes, Features, Labels
from headrace.models.value_words import value_words
from headrace.preprocess.levels import build_preprocess
from headrace.preprocess.spec import PrepLevel

View = tuple[LiveFrame, ...]
"""What the model gives one answer for: one frame, or the frames of a clip in order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Gathered:
    """Views of one size that go through the model together."""

    views: tuple[View, ...]
    is_clips: bool

    @property
    def newest_ns(self) -> int:
        """When the newest frame arrived: latency counts from here."""
        return max(view[-1].arrived_ns for view in self.views)

    @property
    def shown_ns(self) -> int:
        """When the oldest frame that is shown arrived; of a clip its newest is."""
        return min(view[-1].arrived_ns for view in self.views)

    @property
    def oldest_ns(self) -> int:
        """When the oldest frame arrived, that of a clip included."""
        return min(view[0].arrived_ns for view in self.views)

    def pixels(self) -> NDArray[np.uint8]:
        """Return pictures uint8 [N, H, W, 3] or clips uint8 [N, T, H, W, 3], RGB; a copy."""
        if not self.is_clips:
            return np.stack([view[0].pixels for view in self.views])
        return np.stack([np.stack([frame.pixels for frame in view]) for view in self.views])


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedViews:
    """Views that are ready for the model."""

    gathered: Gathered
    tensor: torch.Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelOutputs:
    """Views, and what the model gave for each."""

    gathered: Gathered
    outputs: tuple[Any, ...]
    """One for each of the views."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelRunner:
    """What is done to a batch."""

    prepare: Callable[[NDArray[np.uint8]], torch.Tensor]
    """Pictures uint8 [N, H, W, 3], or clips [N, T, H, W, 3] -> what `run` takes, on the CPU."""
    run: Callable[[torch.Tensor], Any]
    """Called in one thread, with a tensor on `device`."""
    device: Device = "cpu"

    @classmethod
    def of_model(cls, model: Model[Any], prep_level: PrepLevel = "medium") -> "ModelRunner":
        """Return that of a model that is ready, with the preprocessing it was trained with."""
        prepare = build_preprocess(prep_level, model.input)
        return cls(prepare=prepare, run=model.run, device=model.compute.device)

    @classmethod
    def of_callable(
        cls, run: Callable[[torch.Tensor], Any], device: Device = "cpu"
    ) -> "ModelRunner":
        """Return that of any callable; it takes the frames themselves, without gradients.

        Args:
            run: Takes pictures uint8 [N, 3, H, W], or clips uint8 [N, T, 3, H, W], RGB, in
                [0, 255]; gives anything that has one entry for each of them. Called in
                `torch.inference_mode`.
            device: Where the tensor lies.
        """

        def prepare(pixels: NDArray[np.uint8]) -> torch.Tensor:
            return torch.from_numpy(pixels).movedim(-1, -3)

        def run_and_wait(batch: torch.Tensor) -> Any:
            with torch.inference_mode():
                output = run(batch)
            if device != "cpu":
                # What is asked of a GPU is done later; latency counts until it is.
                torch.cuda.current_stream().synchronize()
            return output

        return cls(prepare=prepare, run=run_and_wait, device=device)


def answers_of(output: Any, count: int) -> tuple[Any, ...]:
    """Return what belongs to each of `count` pictures or clips, of what a model gave for them all.

    A tensor, array, list or tuple is taken apart along its first dimension, a dict and headrace's
    own results by what they hold. Of a single picture anything else is the answer as it is.

    Raises:
        ConfigError: it has not one entry for each.
    """
    if isinstance(output, Labels | Boxes):
        columns = {field.name: getattr(output, field.name) for field in fields(output)}
        return tuple(
            replace(output, **{name: column[k : k + 1] for name, column in columns.items()})
            for k in range(count)
        )
    if isinstance(output, Features):
        layers = {name: answers_of(value, count) for name, value in output.layers.items()}
        return tuple(
            Features(layers={name: value[k][None] for name, value in layers.items()})
            for k in range(count)
        )
    if isinstance(output, Mapping):
        parts = {name: answers_of(value, count) for name, value in output.items()}
        return tuple({name: part[k] for name, part in parts.items()} for k in range(count))
    if _has_entries(output) and len(output) == count:
        return tuple(output[k] for k in range(count))
    if count == 1:
        return (output,)
    raise ConfigError(
        f"the model was given {count} pictures and gave {value_words(output)}; return one entry "
        f"for each of them, such as a tensor [{count}, ...], or ask for batch_size=1"
    )


def _has_entries(output: Any) -> bool:
    if isinstance(output, torch.Tensor | np.ndarray):
        return output.ndim > 0
    return isinstance(output, Sequence) and not isinstance(output, str) and not is_dataclass(output)
