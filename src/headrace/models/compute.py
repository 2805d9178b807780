"""How a model is computed, where and in which precision: values alone, without PyTorch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from headrace.config_fields import Option
from headrace.errors import ConfigError, file_errors
from headrace.units import check_integers, one_of

Device = Literal["cpu", "cuda"]
Precision = Literal["float32", "float16", "bfloat16"]


LARGEST: Final = 256
"""Frames in a batch, above which none is tried where the batch size is chosen: each waits for all
of them."""


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Where a model runs and how."""

    device: Device = "cpu"
    precision: Precision = "float32"
    """Below float32 by autocast: weights stay in float32, and what can be computed in fewer bits
    is. Slower, not faster, on a CPU that has no instructions for it."""
    compile: bool = False
    """Whether torch.compile makes code for it first: seconds to minutes, once for each shape of a
    batch, so that batches that are shorter are filled up with zeros. Needs a C++ compiler, on a GPU
    Triton."""
    channels_last: bool = False
    """Whether weights and batches lie with the channels last in memory: faster on some models,
    slower on others; the same results but for rounding."""
    split_layer: str | None = None
    """What the first part of the model ends with: it runs on the CPU, what follows on `device`.
    None: the whole model runs there."""
    warmup_batches: int = 1
    """Batches of zeros that are run before the first real one, which would pay for set-up."""

    def __post_init__(self) -> None:
        one_of(Device, device=self.device)
        one_of(Precision, precision=self.precision)
        check_integers(1, warmup_batches=self.warmup_batches)
        if self.compile and self.split_layer is not None:
            raise ConfigError(
                f"a model that is cut behind {self.split_layer} is not compiled as one; "
                "leave out --enable-compile or --split-point"
            )

    @property
    def entry_device(self) -> Device:
        """Where batches must lie when they go in."""
        return self.device if self.split_layer is None else "cpu"


def layer_of(split_point: str, model_name: str) -> str:
    """Return the layer that "resnet50:layer3", or "layer3" alone, names.

    Raises:
        ConfigError: it is of another model, or empty.
    """
    name, colon, layer = split_point.rpartition(":")
    if colon and name != model_name:
        raise ConfigError(
            f"the split point {split_point} is of {name or 'no model'}, and the model is "
            f"{model_name}; give {model_name}:{layer or 'LAYER'}"
        )
    if not layer:
        raise ConfigError(f"the split point {split_point!r} names no layer; give MODEL:LAYER")
    return layer


def check_weights(text: str) -> None:
    """Raise ConfigError where `text` names a checkpoint that cannot be read."""
    if text not in ("DEFAULT", "none"):
        with file_errors(
            f"cannot read the weights file {text}", "give a checkpoint, DEFAULT or none"
        ):
            Path(text).open("rb").close()


WEIGHTS_OPTION: Final = Option(
    "DEFAULT (torchvision's own), none (random), or a checkpoint file.", check=check_weights
)
