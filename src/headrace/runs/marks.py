"""What marks a run leaves for other tools, checked before it begins."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.errors import BackendError, ConfigError
from headrace.profiling.nvtx_marks import NvtxMarks
from headrace.profiling.provenance import Scalar
from headrace.profiling.tensorboard_log import writing
from headrace.profiling.torch_events import warm_up
from headrace.runs.start import StartWatch
from headrace.sizes import check_integers

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

TRACE_STEPS: Final = 20
"""Steps in a trace: some megabytes at most, and a look at each kind of step."""


@dataclass(frozen=True, kw_only=True)
class MarkOptions:
    """What marks a run leaves for other tools; none by default, and then they cost nothing."""

    nvtx: bool = False
    """Whether NVTX ranges are made, for `nsys profile`; they need the extra `nvtx`."""
    trace: bool = False
    """Whether the first steps are written as a trace for Perfetto; those steps are slower."""
    trace_steps: int | None = None
    """Steps after the warm-up that a trace shows PyTorch's work of; None means 20."""
    tensorboard: Path | None = None
    """Folder of TensorBoard's logs, one folder in it for each run; needs the extra `tensorboard`.
    A trace is put there, too."""

    def __post_init__(self) -> None:
        if self.trace_steps is not None and not self.trace:
            raise ConfigError(f"trace_steps={self.trace_steps} needs a trace; add --trace")
        check_integers(1, trace_steps=self.trace_steps)

    def configuration(self) -> dict[str, Scalar]:
        """Return every option in force, as a session records it."""
        return {
            "nvtx": self.nvtx,
            "trace": self.trace,
            "trace_steps": (self.trace_steps or TRACE_STEPS) if self.trace else None,
            "tensorboard": None if self.tensorboard is None else str(self.tensorboard),
        }

    def prepare(self, watch: StartWatch) -> None:
        """Check all that can be checked before a run, and set the profiler up; `watch` hears of it.

        Raises:
            BackendError: a package is not installed.
            ConfigError: TensorBoard's folder cannot be made.
        """
        if self.nvtx:
            nvtx_marks()
        if self.tensorboard is not None:
            _writer_type()
            with writing():
                self.tensorboard.mkdir(parents=True, exist_ok=True)
        if self.trace:
            with watch.part("profiler"):
                warm_up()


def nvtx_marks() -> NvtxMarks:
    """Return marks that NVTX hears of.

    Raises:
        BackendError: the package `nvtx` is not installed.
    """
    try:
        import nvtx
    except ModuleNotFoundError as error:
        raise BackendError(
            "NVTX ranges need the package nvtx, which is not installed: "
            "pip install 'headrace[nvtx]'"
        ) from error
    return NvtxMarks(nvtx.get_domain("headrace"))


def _writer_type() -> "type[SummaryWriter]":
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise BackendError(
            "logs for TensorBoard need the package tensorboard, which is not installed: "
            "pip install 'headrace[tensorboard]'"
        ) from error
    return SummaryWriter


def opened_log(folder: Path) -> "SummaryWriter":
    """Return what writes a log into a folder, which is made.

    Raises:
        BackendError: the package `tensorboard` is not installed.
        ConfigError: it cannot be written there.
    """
    with writing():
        return _writer_type()(str(folder))
