"""What `headrace plan` plans for. The command line reads it: it loads no PyTorch and no NumPy."""

from dataclasses import dataclass
from typing import Annotated

from headrace.errors import ConfigError
from headrace.experiments.options import FrameSize, Option, check_options
from headrace.sampling.rho import TAKEN_RHO
from headrace.sizes import parse_bytes


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """What is planned for; the same words as those of `FrameLoader`."""

    batch_size: Annotated[int, Option("Frames in a batch.", least=1)] = 128
    memory_budget: Annotated[
        int | str,
        Option(
            "For frames that wait, and three batches; like 256MiB or 1GiB.", flags=("--memory",)
        ),
    ] = "1GiB"
    size: FrameSize = (256, 256)
    target: Annotated[
        float | None,
        Option("Frames per second that the model takes.", least=1, flags=("--target-fps",)),
    ] = None
    """None means as many as there are."""
    rho: Annotated[
        float, Option("Correlation of the gradients of two frames of a burst.", least=0, most=1)
    ] = TAKEN_RHO
    frames_per_burst: Annotated[
        int | None,
        Option("Frames in a burst; chosen if it is not given.", least=2, flags=("--burst",)),
    ] = None
    trial_seconds: float | None = None
    """Run every strategy for so long; None predicts only."""

    def __post_init__(self) -> None:
        check_options(self)
        if self.trial_seconds is not None and not self.trial_seconds > 0:
            raise ConfigError(f"trial_seconds must be > 0, got {self.trial_seconds}")
        parse_bytes(self.memory_budget)
