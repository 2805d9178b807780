"""What to train, on what and how: a few values, checked when made."""

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Final

from headrace.config_fields import Option
from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError, file_errors
from headrace.profiling.provenance import Scalar, plain
from headrace.redaction import masked
from headrace.runs.run_options import ComputeOptions, computing
from headrace.units import check_integers

_LARGEST_SIDE: Final = 8192
_ON_ERROR: Final = ("raise", "skip")


def check_labels(path: Path) -> None:
    """Raise ConfigError where the file of labels cannot be read."""
    with file_errors(f"cannot read the file of labels {path}", "give a file"):
        path.open("rb").close()


@dataclass(frozen=True, kw_only=True)
class LabelledInput:
    """What is learnt from."""

    sources: tuple[str, ...]
    """Paths of videos, of folders, or of lists of them."""
    labels: Annotated[
        Path | None,
        Option("Retrain: CSV of path,label; without it labels are dummies.", check=check_labels),
    ] = None
    """See `label_file`. None gives each frame a dummy label, drawn at random: the times then mean
    something, the head does not."""
    held_out: Annotated[
        float, Option("Retrain: videos of each class kept for the accuracy.", metavar="SHARE")
    ] = 0.2
    """They are not trained on."""
    stride: int = 1
    """1 means every frame."""
    size: tuple[int, int] | None = None
    """(height, width) that frames are decoded to; None keeps the videos' own, which must then be
    the same for all. Decoding to a smaller size is quicker, and what a run then sees differs from
    it by the resizing."""
    on_error: OnError = "raise"
    """What bad media does: end the training; or `skip`: be left out, with other frames instead, and
    listed. What is learnt from damaged frames is not wanted, so they are not concealed."""

    def __post_init__(self) -> None:
        check_integers(1, stride=self.stride)
        for source in self.sources:
            if "://" in source:
                raise ConfigError(
                    f"{masked(source)} comes as it comes, and a training reads its videos in any "
                    "order; record it to a file first"
                )
        if self.size is not None and not all(1 <= side <= _LARGEST_SIDE for side in self.size):
            raise ConfigError(
                f"size is a height and a width of 1 to {_LARGEST_SIDE} pixels each, got {self.size}"
            )
        check_on_error(self.on_error, _ON_ERROR)
        if not 0 <= self.held_out < 1:
            raise ConfigError(
                f"held_out is a share of the videos, at least 0 and below 1; got {self.held_out}"
            )


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How it is learnt: by Adam, with the model in evaluation mode throughout.

    So means and variances of batch norms stay those of the backbone, nothing drops out, and what
    is learnt follows from the seed.
    """

    epochs: Annotated[int, Option("Retrain: how often each frame comes.", least=1)] = 1
    max_steps: int | None = None
    """Where to stop; None means after the last epoch."""
    learning_rate: Annotated[float, Option("Retrain: step size of Adam.")] = 1e-3
    """About how far each weight moves in a step."""
    train_from: Annotated[
        str | None,
        Option("Retrain: train all from this layer on, not the head alone.", metavar="LAYER"),
    ] = None
    checkpoint_gradients: Annotated[
        bool,
        Option(
            "Retrain: trained layers recompute what they would keep; less memory.",
            flags=("--checkpoint-gradients",),
        ),
    ] = False
    """Each step takes longer."""
    seed: Annotated[int, Option("Retrain: another one trains another way.", least=0)] = 0
    """Of the order of frames, the first weights of the head, and which videos are held out."""

    def __post_init__(self) -> None:
        check_integers(1, epochs=self.epochs, max_steps=self.max_steps)
        if not 0 <= self.seed < 1 << 64:
            raise ConfigError(f"seed must be at least 0 and below 2**64, got {self.seed}")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise ConfigError(f"learning_rate must be above 0, got {self.learning_rate}")
        if self.checkpoint_gradients and self.train_from is None:
            raise ConfigError(
                "checkpoint_gradients saves memory in layers that are trained, and only the head "
                "is, which has none to save; name the first layer to train with --train-from"
            )


@dataclass(frozen=True, kw_only=True)
class RetrainOptions:
    """One training."""

    input: LabelledInput
    training: TrainOptions = field(default_factory=TrainOptions)
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    out: Path = Path("headrace_run")
    """Folder of the results; made when missing."""

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, defaults included, as a session records it."""
        options = {**computing(self.compute), **asdict(self.input), **asdict(self.training)}
        return plain({"model": options.pop("model_name"), **options, "out": self.out})
