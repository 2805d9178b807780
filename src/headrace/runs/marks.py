"""What marks a run leaves for other tools, checked before it begins."""

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.extras import require
from headrace.profiling.tensorboard_log import writing
from headrace.profiling.torch_trace import warm_up
from headrace.profiling.trace import NvtxMarks
from headrace.runs.options import MarkOptions
from headrace.runs.start import StartWatch

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


def prepare_marks(options: MarkOptions, watch: StartWatch) -> None:
    """Check all that can be checked before a run, and set the profiler up; `watch` hears of it.

    Raises:
        BackendError: a package is not installed.
        ConfigError: TensorBoard's folder cannot be made.
    """
    if options.nvtx:
        nvtx_marks()
    if options.tensorboard is not None:
        _writer_type()
        with writing():
            options.tensorboard.mkdir(parents=True, exist_ok=True)
    if options.trace:
        with watch.part("profiler"):
            warm_up()


def nvtx_marks() -> NvtxMarks:
    """Return marks that NVTX hears of.

    Raises:
        BackendError: the package `nvtx` is not installed.
    """
    with require("nvtx", "a run with NVTX ranges"):
        import nvtx
    return NvtxMarks(nvtx.get_domain("headrace"))


def _writer_type() -> "type[SummaryWriter]":
    with require("tensorboard", "a log for TensorBoard"):
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter


def opened_log(folder: Path) -> "SummaryWriter":
    """Return what writes a log into a folder, which is made.

    Raises:
        BackendError: the package `tensorboard` is not installed.
        ConfigError: it cannot be written there.
    """
    with writing():
        return _writer_type()(str(folder))
