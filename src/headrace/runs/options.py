"""What to run, on what, with what, and where results go: a few values, checked when made."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import get_args

from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError
from headrace.models.compute import Device
from headrace.preprocess.operations import PrepLevel
from headrace.profiling.provenance import Scalar
from headrace.runs.marks import MarkOptions


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """What is read."""

    source: str
    """Path of a video file."""
    stride: int = 1
    """1 means every frame."""
    max_steps: int | None = None
    """Where to stop; None means at the end of the video."""
    on_error: OnError = "raise"
    """What damaged frames do: end the run; be left out, counted and listed; or come as FFmpeg shows
    them, counted and listed."""

    def __post_init__(self) -> None:
        _check_least(self, "stride", "max_steps")
        check_on_error(self.on_error)


@dataclass(frozen=True, kw_only=True)
class ComputeOptions:
    """What is computed, and where."""

    model_name: str = "mobilenet_v2"
    """A classification model of torchvision."""
    weights: str = "DEFAULT"
    """`DEFAULT` (torchvision's own), `none` (random), or the path of a checkpoint."""
    batch_size: int = 16
    """Frames in a step. Decoded frames that wait for the model take up to 1 GiB, four batches where
    these are larger; ten batches more are on their way through the stages."""
    prep_level: PrepLevel = "medium"
    """How much preprocessing is done: see headrace.preprocess.levels."""
    device: Device = "cpu"
    """Where the model runs."""
    threads: int | None = None
    """Threads of one operation of PyTorch on the CPU; None leaves PyTorch's choice."""

    def __post_init__(self) -> None:
        _check_least(self, "batch_size", "threads")
        for name, choices in (("prep_level", PrepLevel), ("device", Device)):
            if getattr(self, name) not in get_args(choices):
                raise ConfigError(
                    f"{name} must be one of {', '.join(get_args(choices))}, "
                    f"got {getattr(self, name)!r}"
                )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where results go."""

    out: Path = Path("headrace_run")
    """Folder of the results; made when missing."""
    video: bool = True
    """Whether an annotated video is written; predictions always are."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """One run."""

    input: InputOptions
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    output: OutputOptions = field(default_factory=OutputOptions)
    marks: MarkOptions = field(default_factory=MarkOptions)

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, defaults included, as a session records it."""
        options = {**asdict(self.input), **asdict(self.compute), **asdict(self.output)}
        named = {"model": options.pop("model_name"), **options, "out": str(self.output.out)}
        return named | self.marks.configuration()


def _check_least(options: object, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ConfigError(f"{name} must be >= 1, got {value}")
