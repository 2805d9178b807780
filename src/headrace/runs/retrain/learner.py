"""The model that is trained: a frozen backbone with a new head, on its device and warm."""

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
from headrace.runs.model_setup import StartWatch, computing_place
from headrace.runs.retrain.retrain_options import TrainOptions
from headrace.runs.retrain.trainer import Trainer
from headrace.runs.run_options import ComputeOptions


@dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
    """A model, what of it is trained, and what trains it."""

    model: Model[Labels]
    preprocess: Preprocess
    trainer: Trainer
    trained: tuple[str, ...]
    """Names of the weights that are trained."""
    backbone: str
    """The weights it began with: `DEFAULT`, `none`, or the path of a checkpoint."""
    checksum: int
    """Of those that are frozen."""

    @property
    def num_trained(self) -> int:
        """Numbers in the weights that are trained."""
        return sum(each.numel() for each in self.model.module.parameters() if each.requires_grad)

    def head(self, classes: Sequence[str]) -> TrainedHead:
        """Return what is trained, as it is now."""
        state = self.model.module.state_dict()
        return TrainedHead(
            model=self.model.name,
            backbone=self.backbone,
            checksum=self.checksum,
            classes=tuple(classes),
            state={name: state[name] for name in self.trained},
        )


def ready_learner(
    options: ComputeOptions,
    training: TrainOptions,
    classes: Sequence[str],
    *,
    compute: Compute,
    batch_size: int,
    watch: StartWatch,
    compiler: Compiler = compile_module,
) -> Learner:
    """Return a model with a new head for `classes`, warm for training; `watch` hears what it took.

    Args:
        options: Which model and weights, how much preprocessing, how many threads.
        training: What of it is trained, and how.
        classes: Their names.
        compute: Where it is trained and how. What is compiled is trained; it is held against the
            videos that were held out as it is.
        batch_size: Frames in a batch.
        watch: Hears how long each part took.
        compiler: What compiles it, where `compute` asks for it.

    Raises:
        ConfigError: unknown model or layer, weights that do not fit or are a head themselves, or
            nothing to recompute.
        BackendError: the device is missing, or the model cannot be compiled or trained there with
            such batches.
    """

    def load() -> Model[Labels]:
        return _frozen_with_new_head(options, training, classes)

    with computing_place(options):
        # What is compiled is the forward that keeps what its backward needs, below.
        ready = prepare(
            load, replace(compute, compile=False), batch_size=batch_size, clock=watch.clock
        )
        watch.add("model", ready.startup.load_seconds + ready.startup.warmup_seconds)
        module = ready.model.module
        if training.checkpoint_gradients:
            _recompute(module, options.model_name, training.train_from)
        preprocess = build_preprocess(options.prep_level, ready.model.input)
        trainer = Trainer(
            ready.model,
            preprocess,
            forward=FixedBatch(compiler(module), batch_size) if compute.compile else module,
            learning_rate=training.learning_rate,
            clock=watch.clock,
        )
        with watch.part("compile" if compute.compile else "warm-up"):
            _warm_up(trainer, ready.model, batch_size, is_compiled=compute.compile)
    trained = tuple(name for name, each in module.named_parameters() if each.requires_grad)
    return Learner(
        model=ready.model,
        preprocess=preprocess,
        trainer=trainer,
        trained=trained,
        backbone=_lasting(options.weights),
        checksum=backbone_checksum(module, trained),
    )


def _frozen_with_new_head(
    options: ComputeOptions, training: TrainOptions, classes: Sequence[str]
) -> Model[Labels]:
    name, weights = options.model_name, options.weights
    check_name(name, "classification")
    if weights not in PLACES and TrainedHead.of(read_checkpoint(Path(weights)), Path(weights)):
        raise ConfigError(
            f"{weights} is a head that was trained already; a new one begins from the weights of "
            "a whole model: give --weights DEFAULT, none, or a checkpoint"
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
    """Run once, for which the compiler works."""
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
            f"from {train_from} on {name} has no block that could recompute what it keeps; "
            "leave out --checkpoint-gradients, or train more layers"
        )


def _lasting(weights: str) -> str:
    """Return the name of weights as it holds in any folder."""
    return weights if weights in PLACES else str(Path(weights).absolute())
