"""Errors of what decodes, in the words of the option `--decode`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.errors import BackendError

_CURES: Final = {
    "leave gpu out": "leave --decode out",
    "leave backend out": "leave --decode out",
    "; if it is short, give a smaller memory_budget, batch or size; "
    "or leave keeps_on_device out": "",
}
"""What to do, in words of the library -> in those of a command."""


def in_option_words(message: str) -> str:
    """Return a message with the cure that a command has."""
    for cure, ours in _CURES.items():
        message = message.replace(cure, ours)
    return message


@contextmanager
def saying_option() -> Iterator[None]:
    """Raise what is raised inside in the words of the option.

    Raises:
        BackendError: as inside, with the same cause.
    """
    try:
        yield
    except BackendError as error:
        raise BackendError(in_option_words(str(error))) from error.__cause__
