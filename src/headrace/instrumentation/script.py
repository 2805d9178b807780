"""Runner of a profiled script: runs the script as Python does, then reports on its loops.

python .../headrace/instrumentation/script.py '{"out": null, "typed": [...]}' file train.py --lr 0.1

`sys.argv`, `sys.path`, `__main__`, standard streams, signals, exceptions and exit code are as
without the runner. PyTorch is not imported before the script imports it.
"""

import atexit
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from headrace.instrumentation.import_hook import patch_loaders

_RUNNER_FILES: Final = (__file__, runpy.__file__, "<frozen runpy>")
"""Files in a traceback that are not of the script."""


def main(arguments: list[str]) -> None:
    """Run a script.

    Args:
        arguments: Outputs as JSON (see `report_loops`); `file` or `module`; name and arguments of
            the script.
    """
    options, kind, target, *rest = arguments
    outputs = json.loads(options)
    of_module = ["-m"] if kind == "module" else []
    outputs["command"] = [*outputs.get("typed", ()), *of_module, target, *rest]
    end = _ScriptEnd(outputs, target)
    atexit.register(end.report)
    sys.excepthook = end.excepthook
    patch_loaders(outputs.get("change"))
    sys.argv = [target, *rest]
    try:
        if not sys.flags.safe_path:
            sys.path[0] = (
                str(Path.cwd()) if kind == "module" else str(Path(target).resolve().parent)
            )
        if kind == "module":
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(target, run_name="__main__")
    except BaseException as error:
        end.error = error
        raise


class _ScriptEnd:
    """End of a script: normal, by an exception or by Ctrl-C."""

    def __init__(self, outputs: dict[str, Any], target: str) -> None:
        self._outputs, self._target, self._pid = outputs, target, os.getpid()
        self.error: BaseException | None = None

    def report(self) -> None:
        """Report on the loops; does nothing in forked processes."""
        if os.getpid() != self._pid:
            return
        try:
            has_loops = False
            # Without this module, no loader was iterated.
            if "headrace.instrumentation.patch_all" in sys.modules:
                from headrace.instrumentation.loop_profile import report_loops

                has_loops = report_loops(self._outputs, self.error)
            if not has_loops and not self._outputs.get("ranks"):
                sys.stderr.write(
                    f"headrace: {self._target} took no batch from a DataLoader or a headrace "
                    "loader, so no loop was profiled; processes that the script starts are not "
                    "profiled\n"
                )
        finally:
            # Its frames hold iterators of the script, which must end before modules are cleared.
            error, self.error = self.error, None
            if type(error) is KeyboardInterrupt:
                _exit_by_sigint()

    def excepthook(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> Any:
        """Print an exception as Python does, without the frames of the runner."""
        while (
            traceback
            and traceback.tb_frame.f_code.co_filename in _RUNNER_FILES
            and traceback.tb_next
        ):
            traceback = traceback.tb_next
        sys.__excepthook__(kind, error.with_traceback(traceback), traceback)


def _exit_by_sigint() -> None:
    """End the process by the signal, as Python does after Ctrl-C.

    Python does not if code was compiled after the interrupt, for example to create a class.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)


if __name__ == "__main__":
    main(sys.argv[1:])
