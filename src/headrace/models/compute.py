"""Where a model runs and how: device, precision, compilation, memory layout, warm-up."""

from dataclasses import dataclass
from typing import get_args

import torch

from headrace.errors import BackendError, ConfigError
from headrace.models.precision import Device, Precision
from headrace.runtime.gpus import why_no_gpu
from headrace.sizes import check_integers


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
        for name, choices in (("device", Device), ("precision", Precision)):
            if getattr(self, name) not in get_args(choices):
                raise ConfigError(
                    f"{name} must be one of {', '.join(get_args(choices))}, "
                    f"got {getattr(self, name)!r}"
                )
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

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that autocast computes in, where it does."""
        dtype: torch.dtype = getattr(torch, self.precision)
        return dtype


def check_available(compute: Compute, asked: str = "device cuda") -> None:
    """Raise BackendError where this machine has not what was asked for, in the words of `asked`."""
    if compute.device == "cpu":
        return
    if not torch.cuda.is_available():
        raise BackendError(
            f"{asked} was asked for, and PyTorch sees no CUDA device: {why_no_gpu()}; or use "
            "--device cpu"
        )
    if compute.precision == "bfloat16" and not torch.cuda.is_bf16_supported():
        raise BackendError(
            f"precision bfloat16 was asked for, and {torch.cuda.get_device_name()} has none; "
            "use float16"
        )
