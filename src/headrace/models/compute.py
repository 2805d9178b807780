"""Device, precision and compilation of a model; does not import PyTorch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from headrace.config_fields import Option
from headrace.errors import ConfigError, file_errors
from headrace.units import one_of

Device = Literal["cpu", "cuda"]
Precision = Literal["float32", "float16", "bfloat16"]
MAX_BATCH_SIZE: Final = 256
"""Max automatic batch size: each frame waits for its whole batch."""


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Device and settings of a model."""

    device: Device = "cpu"
    precision: Precision = "float32"
    """float16 and bfloat16 use autocast: weights stay in float32, and eligible operations use 16
    bits. Slower on a CPU without instructions for the precision."""
    compile: bool = False
    """Whether to run torch.compile first. It takes seconds to minutes per batch shape, so shorter
    batches are padded with zeros. Needs a C++ compiler; on a GPU, Triton."""
    split_layer: str | None = None
    """Last layer of the model's first part, which runs on the CPU; the rest runs on `device`. None:
    the whole model runs on `device`."""

    def __post_init__(self) -> None:
        one_of(Device, device=self.device)
        one_of(Precision, precision=self.precision)
        if self.compile and self.split_layer is not None:
            raise ConfigError(
                f"a model split after {self.split_layer} cannot be compiled; "
                "leave out --enable-compile or --split-point"
            )

    @property
    def entry_device(self) -> Device:
        """Device of input batches."""
        return self.device if self.split_layer is None else "cpu"


def layer_of(split_point: str, model_name: str) -> str:
    """Return the layer of a split point: "layer3" of "resnet50:layer3" or of "layer3".

    Raises:
        ConfigError: the text names another model, or no layer.
    """
    name, colon, layer = split_point.rpartition(":")
    if colon and name != model_name:
        raise ConfigError(
            f"the split point {split_point} names {name or 'no model'}, but the model is "
            f"{model_name}; give {model_name}:{layer or 'LAYER'}"
        )
    if not layer:
        raise ConfigError(f"the split point {split_point!r} names no layer; give MODEL:LAYER")
    return layer


def check_weights(text: str) -> None:
    """Raise ConfigError if `text` names a checkpoint that cannot be read."""
    if text not in ("DEFAULT", "none"):
        with file_errors(
            f"cannot read the weights file {text}", "give a checkpoint, DEFAULT or none"
        ):
            Path(text).open("rb").close()


WEIGHTS_OPTION: Final = Option(
    "Weights: DEFAULT (torchvision's), none (random), or a checkpoint file.", check=check_weights
)
