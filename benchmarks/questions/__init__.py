"""One file for each question that a worker process can be asked."""

from typing import Any, Protocol


class Question(Protocol):
    """A module of this package."""

    def answer(self, **asked: Any) -> dict[str, Any]:
        """Return what is found, ready for JSON; a timed question answers with a `Repeat`."""
