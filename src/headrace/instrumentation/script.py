"""Runs somebody's script as Python would, and says at its end what its loops waited for.

python .../headrace/instrumentation/script.py '{"out": null, "json": null}' file train.py --lr 0.1

The script sees its own `sys.argv`, `sys.path`, `__main__`, standard streams and signals; what it
raises and its exit code are its own. Nothing of PyTorch is imported before the script does.
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
from headrace.instrumentation.script_end import no_loop, to_stderr

_OURS: Final = (__file__, runpy.__file__, "<frozen runpy>")
"""Files that are not the script's in a traceback."""


def main(arguments: list[str]) -> None:
    """Run a script: (what to leave as JSON, `file` or `module`, its name, its arguments...)."""
    note, kind, target, *rest = arguments
    end = _End(json.loads(note), target)
    atexit.register(end.tell)
    sys.excepthook = end.excepthook
    patch_loaders()
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


class _End:
    """What is said when the script has ended, whatever ended it."""

    def __init__(self, asked: dict[str, str | None], target: str) -> None:
        self._asked, self._target, self._pid = asked, target, os.getpid()
        self.error: BaseException | None = None

    def tell(self) -> None:
        """Say it, and write what was asked for; once, in the process of the script alone."""
        if os.getpid() != self._pid:
            return
        try:
            self._tell()
        finally:
            if type(self.error) is KeyboardInterrupt:
                _end_by_interrupt()

    def _tell(self) -> None:
        if "headrace.instrumentation.patch_all" not in sys.modules:
            to_stderr(no_loop(self._target))
            return
        from headrace.instrumentation.script_end import tell_end

        tell_end(self._target, self._asked, self.error)

    def excepthook(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> Any:
        """Show an error of the script as Python would, beginning in the script."""
        while traceback and traceback.tb_frame.f_code.co_filename in _OURS and traceback.tb_next:
            traceback = traceback.tb_next
        sys.__excepthook__(kind, error.with_traceback(traceback), traceback)


def _end_by_interrupt() -> None:
    """End as Python does after Ctrl-C: by the signal.

    It forgets to, where code was compiled since, as happens when classes are made.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main(sys.argv[1:])
