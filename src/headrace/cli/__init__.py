"""The command line: one file per command; flags build the values the library itself takes."""

import signal
import sys

from headrace.errors import BackendError
from headrace.profiling.extras import check_run


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; end the process with its exit code.

    Args:
        arguments: What was typed; None means the arguments of this process.
    """
    # There is nothing to keep yet: Ctrl-C ends the imports without a traceback of them.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        check_run("the command")
        from headrace.cli.main import main as run
    except BackendError as error:
        sys.exit(f"headrace: {error}")
    finally:
        signal.signal(signal.SIGINT, handler)
    run(arguments)


__all__ = ["main"]
