"""Training step: preprocessing, transfer, forward, backward, optimizer."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from headrace.errors import BackendError, first_line
from headrace.models.device_transfer import transfer
from headrace.models.model import Model
from headrace.models.precision_support import autocast_dtype
from headrace.models.results import Labels
from headrace.preprocess.levels import Preprocess
from headrace.profiling.stage_records import Role
from headrace.runtime.clock import Clock

DATA: Final = "data"
PARTS: Final[dict[str, Role]] = {
    DATA: "decode",
    "preprocess": "preprocess",
    "transfer": "transfer",
    "forward": "model",
    "backward": "model",
    "optimizer": "model",
}
"""Part of a step → role, in order; `data` is the wait for a batch."""


@dataclass(frozen=True, kw_only=True)
class TrainStep:
    """Result of one training step."""

    loss: float
    """Mean cross-entropy of the batch, before the update of the weights."""
    work_ms: dict[str, float]
    """Part → wall-clock time; on a GPU until the work is complete."""


class Trainer:
    """Trainer of the unfrozen weights of a model. Not thread-safe."""

    def __init__(
        self,
        model: Model[Labels],
        preprocess: Preprocess,
        *,
        forward: nn.Module,
        learning_rate: float,
        clock: Clock,
    ) -> None:
        """Prepare the optimizer.

        Args:
            model: Model on its device, in evaluation mode, with frozen untrained weights.
            preprocess: Preprocessing of the model.
            forward: The model's module, or its compiled form.
            learning_rate: Learning rate of Adam.
            clock: Clock of the training.
        """
        self._model = model
        self._preprocess = preprocess
        self._forward = forward
        weights = [weight for weight in model.module.parameters() if weight.requires_grad]
        self._optimizer = torch.optim.Adam(weights, lr=learning_rate)
        compute = model.compute
        # Small float16 gradients underflow: the scaler scales the loss up, the gradients down.
        self._scaler = torch.amp.GradScaler(compute.device, enabled=compute.precision == "float16")
        self._clock = clock
        self.moved_bytes = 0
        """Bytes copied to the device."""

    def warm_up(self, shape: tuple[int, ...]) -> None:
        """Run forward and backward once on zeros; no weight changes.

        Raises:
            BackendError: the device cannot train the model with batches of this size.
        """
        batch = torch.zeros(shape, device=self._model.compute.device)
        classes = torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
        with self._translate_errors(len(batch)):
            self._scaler.scale(self._loss(batch, classes)).backward()  # type: ignore[no-untyped-call]
        self._optimizer.zero_grad(set_to_none=True)

    def step(self, frames: torch.Tensor, classes: torch.Tensor) -> TrainStep:
        """Train on one batch.

        Args:
            frames: uint8 [N, H, W, 3], on the CPU.
            classes: int64 [N], on the CPU.

        Raises:
            BackendError: memory runs out, or the device fails.
        """
        device, timer = self._model.compute.device, _PartTimer(self._clock, self._synchronize)
        with self._translate_errors(len(frames)):
            with timer.part("preprocess"):
                batch = self._preprocess(frames)
            if device != "cpu":
                with timer.part("transfer"):
                    moved = transfer(batch, device)
                    batch, classes = moved.tensor, classes.to(device)
                    self.moved_bytes += moved.bytes_copied
            with timer.part("forward"):
                loss = self._loss(batch, classes)
                value = float(loss.detach())
            with timer.part("backward"):
                self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            with timer.part("optimizer"):
                self._scaler.step(self._optimizer)
                self._scaler.update()
                self._optimizer.zero_grad(set_to_none=True)
        return TrainStep(loss=value, work_ms=timer.work_ms)

    def _loss(self, batch: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        with self._precision():
            scores = self._forward(batch)
        return nn.functional.cross_entropy(scores.float(), classes)

    def _precision(self) -> AbstractContextManager[Any]:
        compute = self._model.compute
        if compute.precision == "float32":
            return nullcontext()
        return torch.autocast(compute.device, dtype=autocast_dtype(compute))

    def _synchronize(self) -> None:
        if self._model.compute.device == "cuda":
            torch.cuda.synchronize()

    @contextmanager
    def _translate_errors(self, batch_size: int) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if isinstance(error, BackendError):
                raise
            raise BackendError(
                f"{self._model.name} cannot be trained on {self._model.compute.device} with "
                f"batches of {batch_size}: {first_line(error)}; "
                "use a smaller --batch-size, train fewer layers, or add --checkpoint-gradients"
            ) from error


class _PartTimer:
    """Timer of the consecutive parts of a step."""

    def __init__(self, clock: Clock, synchronize: Callable[[], None]) -> None:
        self._clock = clock
        self._synchronize = synchronize
        self.work_ms: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time the block, until its work on the device is complete."""
        start_ns = self._clock.now_ns()
        yield
        self._synchronize()
        self.work_ms[name] = (self._clock.now_ns() - start_ns) / 1e6
