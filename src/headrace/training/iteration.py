"""What the loop over a loader is told when it is no longer the one that runs."""

from typing import TypeVar

from headrace.errors import ConfigError

T = TypeVar("T")


def still_running(found: T | None) -> T:
    """Return what an iteration found.

    Raises:
        ConfigError: nothing, as its loader was closed or iterated anew.
    """
    if found is None:
        raise ConfigError(
            "the loader was closed, or iterated anew, while this iteration went on; "
            "use one loader for each iteration"
        )
    return found
