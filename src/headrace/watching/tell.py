"""Saying what a loop came to, to whoever runs it."""

import sys


def no_loop(script: str) -> str:
    """Say that a script iterated nothing that is watched."""
    return (
        f"headrace: {script} took no batch from a DataLoader or a loader of headrace: "
        "there is no loop to tell of; processes that it starts are not watched"
    )


def to_stderr(text: str) -> None:
    """Print it on stderr, so that what the program itself prints stays its own."""
    print(text, file=sys.stderr, flush=True)
