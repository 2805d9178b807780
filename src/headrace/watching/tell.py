"""Saying what a loop came to, to whoever runs it."""

import sys


def to_stderr(text: str) -> None:
    """Print it on stderr, so that what the program itself prints stays its own."""
    print(text, file=sys.stderr, flush=True)
