"""Results to a function of the user's own."""

from collections.abc import Callable
from inspect import iscoroutinefunction

from headrace.errors import ConfigError
from headrace.sinks.seen import Seen


class Callback:
    """Calls a function with each result, in order, from one thread: a `Sink`.

    What the function raises ends this sink, and no other.
    """

    def __init__(self, function: Callable[[Seen], object]) -> None:
        """Call nothing yet; what `function` returns is left alone.

        Raises:
            ConfigError: nothing that can be called here.
        """
        if not callable(function) or iscoroutinefunction(function):
            kind = "an async function" if callable(function) else type(function).__name__
            raise ConfigError(f"a callback is a plain function of one result, got {kind}")
        self._function = function

    def write(self, seen: Seen) -> None:
        """Hand over one batch: see `Sink.write`."""
        self._function(seen)

    def close(self) -> None:
        """Nothing is open: see `Sink.close`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """No files of ours."""
        return ()
