"""Running a model on batches: how large they may be, and what is done where memory runs out."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.errors import BackendError, first_line
from headrace.extraction.features.model import PROBED_SIZE, FeatureModel
from headrace.extraction.features.sampling import Sampling
from headrace.extraction.features.spec import Effort
from headrace.models.batch_size import choose_for
from headrace.models.compute import LARGEST
from headrace.models.gpu_memory import is_out_of_memory, release_memory
from headrace.runtime.clock import Clock

_BUDGET_SECONDS: Final = 10.0
"""Of measuring batch sizes on the CPU."""


class Inference:
    """Runs a model, in smaller batches where memory runs out. For one thread."""

    def __init__(self, model: FeatureModel, on_note: Callable[[str], None], clock: Clock) -> None:
        """Run nothing yet; `on_note` is told once that batches were made smaller."""
        self._model, self._on_note, self._clock = model, on_note, clock
        self.most: int = LARGEST
        """Samples that the model takes at a time, as far as is known."""

    def batch_size(self, effort: Effort, sampling: Sampling) -> int:
        """Return how many samples make a batch: as asked, or by measuring.

        Raises:
            BackendError: the model cannot run, not even on one sample.
        """
        if effort.batch_size != "auto":
            self.most = effort.batch_size
            return effort.batch_size
        sample = self._model.example(sampling.clip_frames, PROBED_SIZE)

        def run(batch_size: int) -> None:
            self._model.run(sample.expand(batch_size, *sample.shape[1:]).contiguous())

        choice = choose_for(
            run,
            self._model.model.compute.device,
            most=LARGEST,
            budget_seconds=_BUDGET_SECONDS,
            clock=self._clock,
        )
        self._on_note(choice.why)
        self.most = choice.batch_size
        return choice.batch_size

    def run(self, batch: torch.Tensor) -> NDArray[Any]:
        """Return the features of a batch, [N, ...]; several runs where it is more than fits.

        Raises:
            BackendError: the model fails.
            ConfigError: as `FeatureModel.run`.
            RuntimeError, MemoryError: not even one sample fits: see `is_out_of_memory`.
        """
        found = []
        while len(batch):
            part = batch[: self.most]
            try:
                found.append(self._model.run(part))
            except (RuntimeError, MemoryError) as error:
                self._halve(len(part), error)
            else:
                batch = batch[len(part) :]
                continue
            release_memory()  # behind the handler, which holds what the failed run held
        return found[0] if len(found) == 1 else np.concatenate(found)

    def prepared(self, frames: torch.Tensor) -> torch.Tensor:
        """Return what the model sees of frames: uint8 [k, H, W, 3] -> [k, 3, h, w].

        Raises:
            RuntimeError, MemoryError: not even one frame fits: see `is_out_of_memory`.
        """
        try:
            return self._finished(self._model.prepare(frames))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error) or len(frames) == 1:
                raise
        release_memory()
        half = len(frames) // 2
        return torch.cat([self.prepared(frames[:half]), self.prepared(frames[half:])])

    def _finished(self, prepared: torch.Tensor) -> torch.Tensor:
        if prepared.is_cuda:  # the work is done when this returns, so that it is timed here
            torch.cuda.current_stream(prepared.device).synchronize()
        return prepared

    def _halve(self, size: int, error: BaseException) -> None:
        if is_out_of_memory(error) and size == 1:
            raise error
        if not is_out_of_memory(error):
            words = first_line(error)
            raise BackendError(
                f"{self._model.model.name} cannot run on {self._model.numerics.device} with "
                f"batches of {size}: {words}; use a smaller model or another --device"
            ) from error
        self.most = size // 2
        self._on_note(
            f"batches of {size} do not fit into the memory; going on with {self.most} at a time"
        )
