"""One step of training, part by part: preprocessing, transfer, forward, backward, optimizer."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn

from headrace.errors import BackendError, first_line
from headrace.models.model import Model
from headrace.models.precision_support import autocast_dtype
from headrace.models.results import Labels
from headrace.models.transfer import transfer
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
"""Part of a step → the role it plays. They follow each other; `data` is the wait for a batch."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One step of training."""

    loss: float
    """Mean cross-entropy of the batch, before the weights were moved."""
    work_ms: dict[str, float]
    """Part → wall clock it took; on a GPU until the work is complete."""


class Trainer:
    """Moves the weights of a model that are not frozen. Not thread-safe."""

    def __init__(
        self,
        model: Model[Labels],
        preprocess: Preprocess,
        *,
        forward: nn.Module,
        learning_rate: float,
        clock: Clock,
    ) -> None:
        """Train nothing yet.

        Args:
            model: On its device, in evaluation mode; frozen but for what is trained.
            preprocess: From frames to what it takes.
            forward: What runs: the model's module, or that compiled.
            learning_rate: Of Adam.
            clock: What measures.
        """
        self._model = model
        self._preprocess = preprocess
        self._forward = forward
        weights = [each for each in model.module.parameters() if each.requires_grad]
        self._optimizer = torch.optim.Adam(weights, lr=learning_rate)
        compute = model.compute
        # Small gradients vanish in float16; a factor keeps them, and is taken out again.
        self._scaler = torch.amp.GradScaler(compute.device, enabled=compute.precision == "float16")
        self._clock = clock
        self.moved_bytes = 0
        """Bytes that were copied to the device."""

    def warm_up(self, shape: tuple[int, ...]) -> None:
        """Run forward and backward once on zeros; no weight moves.

        Raises:
            BackendError: the model cannot be trained there with batches of this size.
        """
        batch = torch.zeros(shape, device=self._model.compute.device)
        classes = torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
        with self._explained(len(batch)):
            self._scaler.scale(self._loss(batch, classes)).backward()  # type: ignore[no-untyped-call]
        self._optimizer.zero_grad(set_to_none=True)

    def step(self, frames: torch.Tensor, classes: torch.Tensor) -> Trained:
        """Learn from one batch.

        Args:
            frames: uint8 [N, H, W, 3], on the CPU.
            classes: int64 [N], on the CPU.

        Raises:
            BackendError: it does not fit, or the device fails.
        """
        device, watch = self._model.compute.device, _PartWatch(self._clock, self._settle)
        with self._explained(len(frames)):
            with watch.part("preprocess"):
                batch = self._preprocess(frames)
            if device != "cpu":
                with watch.part("transfer"):
                    moved = transfer(batch, device)
                    batch, classes = moved.tensor, classes.to(device)
                    self.moved_bytes += moved.bytes_copied
            with watch.part("forward"):
                loss = self._loss(batch, classes)
                value = float(loss.detach())
            with watch.part("backward"):
                self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            with watch.part("optimizer"):
                self._scaler.step(self._optimizer)
                self._scaler.update()
                self._optimizer.zero_grad(set_to_none=True)
        return Trained(loss=value, work_ms=watch.work_ms)

    def _loss(self, batch: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        with self._precision():
            scores = self._forward(batch)
        return nn.functional.cross_entropy(scores.float(), classes)

    def _precision(self) -> AbstractContextManager[Any]:
        compute = self._model.compute
        if compute.precision == "float32":
            return nullcontext()
        return torch.autocast(compute.device, dtype=autocast_dtype(compute))

    def _settle(self) -> None:
        if self._model.compute.device == "cuda":
            torch.cuda.synchronize()

    @contextmanager
    def _explained(self, batch_size: int) -> Iterator[None]:
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


class _PartWatch:
    """Times parts of a step that follow each other."""

    def __init__(self, clock: Clock, settle: Callable[[], None]) -> None:
        self._clock = clock
        self._settle = settle
        self.work_ms: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what is done inside, until the device has done it too."""
        began_ns = self._clock.now_ns()
        yield
        self._settle()
        self.work_ms[name] = (self._clock.now_ns() - began_ns) / 1e6
