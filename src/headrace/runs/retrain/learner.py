"""Model of a training: a frozen backbone with a new head, warm on its device."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from headrace.errors import BackendError, ConfigError
from headrace.models.catalogue import check_name
from headrace.models.checkpoint import read_checkpoint
from headrace.models.compute import Compute
from headrace.models.evaluation_mode import freeze_before, recompute
from headrace.models.head import replace_head
from headrace.models.load_weights import with_weights
from headrace.models.model import Model
from headrace.models.outputs import ToLabels
from headrace.models.prepare import Compiler, FixedBatch, compile_module, not_compiled, prepare
from headrace.models.results import ClassNames, Labels
from headrace.models.trained_head import PLACES, TrainedHead, backbone_checksum
from headrace.preprocess.levels import Preprocess, build_preprocess
from headrace.runs.model_setup import StartupTimer, compute_resources
from headrace.runs.retrain.retrain_options import TrainOptions
from headrace.runs.retrain.trainer import Trainer
from headrace.runs.run_options import ComputeOptions


@dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
    """Model with its trainer and the names of its trained weights."""

    model: Model[Labels]
    preprocess: Preprocess
    trainer: Trainer
    trained: tuple[str, ...]
    """Names of the trained weights."""
    backbone: str
    """Initial weights: `DEFAULT`, `none`, or the path of a checkpoint."""
    checksum: int
    """Checksum of the frozen weights."""

    @property
    def num_trained(self) -> int:
        """Number of trained parameters."""
        return sum(w.numel() for w in self.model.module.parameters() if w.requires_grad)

    def head(self, classes: Sequence[str]) -> TrainedHead:
        """Return the current trained weights."""
        state = self.model.module.state_dict()
        return TrainedHead(
            model=self.model.name,
            backbone=self.backbone,
            checksum=self.checksum,
            classes=tuple(classes),
            state={name: state[name] for name in self.trained},
        )


def load_learner(
    options: ComputeOptions,
    training: TrainOptions,
    classes: Sequence[str],
    *,
    compute: Compute,
    batch_size: int,
    timer: StartupTimer,
    compiler: Compiler = compile_module,
) -> Learner:
    """Return a model with a new head for `classes`, warm for training.

    Args:
        options: Model, weights, preprocessing and threads.
        training: Trained layers and optimizer settings.
        classes: Class names.
        compute: Device and precision; compilation applies to the training only.
        batch_size: Frames in a batch.
        timer: Records the duration of each part.
        compiler: Compiles the model if `compute.compile` is set.

    Raises:
        ConfigError: the model or layer is unknown; the weights do not fit or are a head; no layer
            can recompute activations.
        BackendError: the device is missing, or cannot compile or train the model with batches of
            this size.
    """

    def load() -> Model[Labels]:
        return _frozen_with_new_head(options, training, classes)

    with compute_resources(options):
        # The training's forward is compiled below, because it saves values for the backward.
        ready = prepare(
            load, replace(compute, compile=False), batch_size=batch_size, clock=timer.clock
        )
        timer.add("model", ready.startup.load_seconds + ready.startup.warmup_seconds)
        module = ready.model.module
        if training.checkpoint_gradients:
            _recompute(module, options.model_name, training.train_from)
        preprocess = build_preprocess(options.prep_level, ready.model.input)
        trainer = Trainer(
            ready.model,
            preprocess,
            forward=FixedBatch(compiler(module), batch_size) if compute.compile else module,
            learning_rate=training.learning_rate,
            clock=timer.clock,
        )
        with timer.part("compile" if compute.compile else "warm-up"):
            _warm_up(trainer, ready.model, batch_size, is_compiled=compute.compile)
    weights = options.weights
    trained = tuple(name for name, weight in module.named_parameters() if weight.requires_grad)
    return Learner(
        model=ready.model,
        preprocess=preprocess,
        trainer=trainer,
        trained=trained,
        backbone=weights if weights in PLACES else str(Path(weights).absolute()),
        checksum=backbone_checksum(module, trained),
    )


def _frozen_with_new_head(
    options: ComputeOptions, training: TrainOptions, classes: Sequence[str]
) -> Model[Labels]:
    name, weights = options.model_name, options.weights
    check_name(name, "classification")
    if weights not in PLACES and TrainedHead.of(read_checkpoint(Path(weights)), Path(weights)):
        raise ConfigError(
            f"{weights} is a trained head, and a new head starts from the weights of a complete "
            "model: give --weights DEFAULT, none, or a checkpoint"
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


def _warm_up(trainer: Trainer, model: Model[Labels], batch_size: int, *, is_compiled: bool) -> None:
    """Run one step, which compiles the model."""
    try:
        trainer.warm_up(model.input.shape(batch_size, (0, 0)))
    except (BackendError, OSError) as error:
        if is_compiled:
            cause = error.__cause__ or error
            raise not_compiled(model, batch_size, cause) from cause
        raise


def _recompute(module: nn.Module, name: str, train_from: str | None) -> None:
    if not recompute(module):
        raise ConfigError(
            f"{name} has no block after {train_from} that can recompute its values; "
            "leave out --checkpoint-gradients, or train more layers"
        )
