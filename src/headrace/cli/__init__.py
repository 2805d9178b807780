"""Command line: one module per command; flags build the option classes of the library."""

import atexit
import os
import signal
import sys
from contextlib import suppress

from headrace.errors import BackendError
from headrace.extras import check_extra


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code.

    Args:
        arguments: Command line without the program name; None: `sys.argv[1:]`.
    """
    codes: list[int] = []
    if arguments is None:
        # atexit handlers run last in, first out: those of later imports run before this one.
        atexit.register(lambda: _exit_now(codes[0]) if codes else None)
    # No results exist yet, so Ctrl-C during the imports ends the process without a traceback.
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


def _exit_now(code: int) -> None:
    """Exit without the interpreter's final garbage collection: seconds with PyTorch loaded.

    Runs as the last atexit handler, when all files are written and all threads have ended.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):  # closed stream or pipe
            stream.flush()
    os._exit(code)


__all__ = ["main"]
