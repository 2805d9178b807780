"""The command line: one file per command; flags build the values the library itself takes."""

import signal


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; end the process with its exit code.

    Args:
        arguments: What was typed; None means the arguments of this process.
    """
    # There is nothing to keep yet: Ctrl-C ends the imports without a traceback of them.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from headrace.cli.main import main as run
    finally:
        signal.signal(signal.SIGINT, handler)
    run(arguments)


__all__ = ["main"]
