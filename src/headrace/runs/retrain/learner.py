"""Learner of a training: frozen backbone, new head and optimizer, warm on the device."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import nn

from headrace.errors import BackendError, ConfigError, first_line
from headrace.models.catalogue import check_name
from headrace.models.checkpoint import (
    NAMED_WEIGHTS,
    TrainedHead,
    backbone_checksum,
    read_checkpoint,
)
from headrace.models.device import autocast_dtype, transfer
from headrace.models.evaluation_mode import freeze_before, recompute
from headrace.models.feature_extractor import replace_head
from headrace.models.load import with_weights
from headrace.models.model import (
    Compiler,
    FixedBatch,
    Model,
    compile_error,
    compile_module,
    prepare,
)
from headrace.models.outputs import ToLabels
from headrace.models.results import ClassNames, Labels
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.profiling.run_records import Role
from headrace.runs.model_setup import StartupTimer, compute_resources
from headrace.runs.retrain.retrain_options import TrainOptions
from headrace.runs.run_options import ComputeOptions
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
"""Part of a training step → role, in order; `data` is the wait for a batch."""


class Learner:
    """Model of a training, with its optimizer. Not thread-safe."""

    def __init__(
        self,
        model: Model[Labels],
        preprocess: Preprocess,
        *,
        forward: nn.Module,
        learning_rate: float,
        clock: Clock,
        backbone: str = "none",
    ) -> None:
        """Create the optimizer of the unfrozen weights.

        Args:
            model: Model on its device, in evaluation mode; all weights to keep are frozen.
            preprocess: Preprocessing of the model.
            forward: Module of the model, or its compiled form.
            learning_rate: Learning rate of Adam.
            clock: Clock of the training.
            backbone: Initial weights, for the record: `DEFAULT`, `none`, or a checkpoint path.
        """
        self.model = model
        self.preprocess = preprocess
        self._forward = forward
        self._backbone = backbone
        weights = dict(model.module.named_parameters())
        self._trained = [name for name, weight in weights.items() if weight.requires_grad]
        self._optimizer = torch.optim.Adam(
            [weights[name] for name in self._trained], lr=learning_rate
        )
        compute = model.compute
        # Small float16 gradients underflow: the scaler scales the loss up, the gradients down.
        self._scaler = torch.amp.GradScaler(compute.device, enabled=compute.precision == "float16")
        self._clock = clock
        self.moved_bytes = 0
        """Bytes copied to the device."""

    @property
    def num_trained(self) -> int:
        """Number of trained parameters."""
        return sum(w.numel() for w in self.model.module.parameters() if w.requires_grad)

    def head(self, classes: Sequence[str]) -> TrainedHead:
        """Return the current trained weights."""
        module = self.model.module
        state = module.state_dict()
        return TrainedHead(
            model=self.model.name,
            backbone=self._backbone,
            checksum=backbone_checksum(module, self._trained),
            classes=tuple(classes),
            state={name: state[name] for name in self._trained},
        )

    def warm_up(self, shape: tuple[int, ...]) -> None:
        """Run forward and backward once on zeros, without a weight update.

        Raises:
            BackendError: the device cannot train the model with batches of this size.
        """
        batch = torch.zeros(shape, device=self.model.compute.device)
        classes = torch.zeros(len(batch), dtype=torch.int64, device=batch.device)
        with self._translate_errors(len(batch)):
            self._scaler.scale(self._loss(batch, classes)).backward()  # type: ignore[no-untyped-call]
        self._optimizer.zero_grad(set_to_none=True)

    def step(self, frames: torch.Tensor, classes: torch.Tensor) -> tuple[float, dict[str, float]]:
        """Train on one batch.

        Args:
            frames: uint8 [N, H, W, 3], on the CPU.
            classes: int64 [N], on the CPU.

        Returns:
            The mean cross-entropy of the batch before the weight update, and part → milliseconds;
            on a GPU, until the work is complete.

        Raises:
            BackendError: memory runs out, or the device fails.
        """
        device, work_ms = self.model.compute.device, dict[str, float]()

        @contextmanager
        def part(name: str) -> Iterator[None]:
            start_ns = self._clock.now_ns()
            yield
            if device == "cuda":  # wait, so that this part includes the GPU work
                torch.cuda.synchronize()
            work_ms[name] = (self._clock.now_ns() - start_ns) / 1e6

        with self._translate_errors(len(frames)):
            with part("preprocess"):
                batch = self.preprocess(frames)
            if device != "cpu":
                with part("transfer"):
                    batch, classes = transfer(batch, device), classes.to(device)
                    self.moved_bytes += batch.nbytes
            with part("forward"):
                loss = self._loss(batch, classes)
                value = float(loss.detach())
            with part("backward"):
                self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            with part("optimizer"):
                self._scaler.step(self._optimizer)
                self._scaler.update()
                self._optimizer.zero_grad(set_to_none=True)
        return value, work_ms

    def _loss(self, batch: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        compute, casting = self.model.compute, cast(AbstractContextManager[Any], nullcontext())
        if compute.precision != "float32":
            casting = torch.autocast(compute.device, dtype=autocast_dtype(compute))
        with casting:
            scores = self._forward(batch)
        return nn.functional.cross_entropy(scores.float(), classes)

    @contextmanager
    def _translate_errors(self, batch_size: int) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            if isinstance(error, BackendError):
                raise
            raise BackendError(
                f"{self.model.name} cannot be trained on {self.model.compute.device} with "
                f"batches of {batch_size}: {first_line(error)}; "
                "use a smaller --batch-size, train fewer layers, or add --checkpoint-gradients"
            ) from error


def load_learner(
    options: ComputeOptions,
    training: TrainOptions,
    classes: Sequence[str],
    *,
    batch_size: int,
    timer: StartupTimer,
    compiler: Compiler = compile_module,
) -> Learner:
    """Return a model with a new head for `classes`, warm for training.

    Args:
        options: Model, weights, preprocessing, device, precision and threads.
        training: Trained layers and optimizer settings.
        classes: Class names.
        batch_size: Frames in a batch.
        timer: Receives the duration of each part.
        compiler: Compiles the training if the options request it.

    Raises:
        ConfigError: the model or layer is unknown; the weights do not fit or are a trained head; no
            layer can recompute activations.
        BackendError: the device is missing, or cannot compile or train the model with this batch
            size.
    """
    weights, compute = options.weights, options.compute()
    with compute_resources(options):
        # Compiled below instead: the forward of a training saves values for the backward.
        with timer.part("model"):
            model = prepare(
                lambda: _frozen_with_new_head(options, training, classes),
                replace(compute, compile=False),
                batch_size=batch_size,
            )
        module = model.module
        if training.checkpoint_gradients and not recompute(module):
            raise ConfigError(
                f"{options.model_name} has no block after {training.train_from} that can recompute "
                "activations; leave out --checkpoint-gradients, or train more layers"
            )
        learner = Learner(
            model,
            build_preprocess(options.prep_level, model.input),
            forward=FixedBatch(compiler(module), batch_size) if compute.compile else module,
            learning_rate=training.learning_rate,
            clock=timer.clock,
            backbone=weights if weights in NAMED_WEIGHTS else str(Path(weights).absolute()),
        )
        with timer.part("compile" if compute.compile else "warm-up"):
            _warm_up(learner, batch_size, is_compiled=compute.compile)
    return learner


def _frozen_with_new_head(
    options: ComputeOptions, training: TrainOptions, classes: Sequence[str]
) -> Model[Labels]:
    name, weights = options.model_name, options.weights
    check_name(name, "classification")
    if weights not in NAMED_WEIGHTS and TrainedHead.from_checkpoint(
        read_checkpoint(Path(weights)), Path(weights)
    ):
        raise ConfigError(
            f"{weights} is a trained head, and a new head needs the weights of a complete model; "
            "give --weights DEFAULT, none, or a checkpoint"
        )
    built = with_weights(name, weights)
    head = replace_head(built.module, len(classes), seed=training.seed)
    freeze_before(built.module, head, training.train_from)
    return Model(
        name=name,
        module=built.module,
        input=built.input,
        output=ToLabels(class_names=ClassNames(names=tuple(classes))),
        origin=f"a new head, on {built.origin}",
    )


def _warm_up(learner: Learner, batch_size: int, *, is_compiled: bool) -> None:
    """Run one training step on zeros, which also compiles the model."""
    try:
        learner.warm_up(learner.model.input.shape(batch_size, (0, 0)))
    except (BackendError, OSError) as error:
        if is_compiled:
            cause = error.__cause__ or error
            raise compile_error(learner.model, batch_size, cause) from cause
        raise
