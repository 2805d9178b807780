"""The command line: one file per command; flags build the values the library itself takes."""

import atexit
import os
import signal
import sys
from contextlib import suppress

from headrace.errors import BackendError
from headrace.extras import check_extra


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; end the process with its exit code.

    Args:
        arguments: What was typed; None means the arguments of this process.
    """
    codes: list[int] = []
    if arguments is None:
        # Before the imports: what they register for the exit is called before this.
        atexit.register(lambda: _end_at_once(codes[0]) if codes else None)
    # There is nothing to keep yet: Ctrl-C ends the imports without a traceback of them.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        check_extra("run", "the command")
        from headrace.cli.app import main as run
        from headrace.cli.signals import INTERRUPTED, TERMINATED
    except BackendError as error:
        sys.exit(f"headrace: {error}")
    finally:
        signal.signal(signal.SIGINT, handler)
    try:
        run(arguments)
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            codes.append(end.code)
        raise


def _end_at_once(code: int) -> None:
    """End the process without the interpreter's last collection, which takes seconds with PyTorch.

    All is written by now, threads have ended, and whatever registered for the exit was called.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # closed, or nobody reads it any more
            stream.flush()
    os._exit(code)


__all__ = ["main"]
