"""Options of a training, checked on creation."""

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Final

from headrace.config_fields import Option
from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError, file_errors
from headrace.profiling.provenance import Scalar, plain
from headrace.redaction import masked
from headrace.runs.run_options import ComputeOptions, compute_configuration
from headrace.units import check_integers

_MAX_SIDE: Final = 8192
"""Height and width of decoded frames, at most, in pixels."""
_ON_ERROR: Final = ("raise", "skip")


def check_labels(path: Path) -> None:
    """Raise ConfigError if the label file cannot be read."""
    with file_errors(f"cannot read the file of labels {path}", "give a file"):
        path.open("rb").close()


@dataclass(frozen=True, kw_only=True)
class LabelledInput:
    """Videos and labels of a training."""

    sources: tuple[str, ...]
    """Paths of videos, folders, or lists of videos."""
    labels: Annotated[
        Path | None,
        Option(
            "Retrain: CSV file with columns path,label; by default labels are random.",
            check=check_labels,
        ),
    ] = None
    """See `read_labels`. None gives each frame a random dummy label: times are meaningful then, the
    head is not."""
    held_out: Annotated[
        float,
        Option(
            "Retrain: share of each class's videos held out to measure accuracy.", metavar="SHARE"
        ),
    ] = 0.2
    """Held-out videos are not trained on."""
    stride: int = 1
    """1 means every frame."""
    size: tuple[int, int] | None = None
    """(height, width) of decoded frames; None keeps the size of the videos, which must be equal.
    A smaller size decodes faster, and frames then differ from those of a run by the resizing."""
    on_error: OnError = "raise"
    """Bad media ends the training (`raise`), or is replaced by other frames and listed (`skip`).
    Concealed frames are not for training."""

    def __post_init__(self) -> None:
        check_integers(1, stride=self.stride)
        for source in self.sources:
            if "://" in source:
                raise ConfigError(
                    f"{masked(source)} is a live source, and a training reads its videos in any "
                    "order; record it to a file first"
                )
        if self.size is not None and not all(1 <= side <= _MAX_SIDE for side in self.size):
            raise ConfigError(
                f"size is a height and a width of 1 to {_MAX_SIDE} pixels each, got {self.size}"
            )
        check_on_error(self.on_error, _ON_ERROR)
        if not 0 <= self.held_out < 1:
            raise ConfigError(
                f"held_out is a share of the videos, at least 0 and below 1; got {self.held_out}"
            )


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Training by Adam, with the model in evaluation mode.

    Batch-norm statistics stay the backbone's, dropout is off, and the result depends only on the
    seed.
    """

    epochs: Annotated[int, Option("Retrain: passes over the training frames.", least=1)] = 1
    max_steps: int | None = None
    """Steps of the training, at most; None: all epochs."""
    learning_rate: Annotated[float, Option("Retrain: learning rate of Adam.")] = 1e-3
    """Approximate change of each weight in a step."""
    train_from: Annotated[
        str | None,
        Option("Retrain: train this layer and all after it, not only the head.", metavar="LAYER"),
    ] = None
    checkpoint_gradients: Annotated[
        bool,
        Option(
            "Retrain: recompute activations in the backward pass, with less memory.",
            flags=("--checkpoint-gradients",),
        ),
    ] = False
    """Steps take longer."""
    seed: Annotated[
        int, Option("Retrain: seed of frame order, initial head and held-out videos.", least=0)
    ] = 0
    """Seed of the frame order, the initial head, and the choice of held-out videos."""

    def __post_init__(self) -> None:
        check_integers(1, epochs=self.epochs, max_steps=self.max_steps)
        if not 0 <= self.seed < 1 << 64:
            raise ConfigError(f"seed must be at least 0 and below 2**64, got {self.seed}")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise ConfigError(f"learning_rate must be above 0, got {self.learning_rate}")
        if self.checkpoint_gradients and self.train_from is None:
            raise ConfigError(
                "checkpoint_gradients saves memory in trained layers, and the head alone has none "
                "to save; give the first layer to train with --train-from"
            )


@dataclass(frozen=True, kw_only=True)
class RetrainOptions:
    """Options of one training."""

    input: LabelledInput
    training: TrainOptions = field(default_factory=TrainOptions)
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    out: Path = Path("headrace_run")
    """Output folder; created if missing."""

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, defaults included, as a session records it."""
        options = {
            **compute_configuration(self.compute),
            **asdict(self.input),
            **asdict(self.training),
        }
        return plain({"model": options.pop("model_name"), **options, "out": self.out})
