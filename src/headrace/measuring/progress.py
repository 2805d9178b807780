"""How an experiment says how far it is."""

from collections.abc import Callable

OnProgress = Callable[[str, int, int], None]
"""Called with what begins, how much is done, and of how much (0: unknown)."""


def unseen(what: str, done: int, of: int) -> None:
    """Say nothing."""


OnWord = Callable[[str], None]
"""Called with a sentence for whoever waits."""


def unheard(words: str) -> None:
    """Say nothing."""
