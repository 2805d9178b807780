"""What a model saw in a batch: what every sink takes."""

from dataclasses import dataclass
from typing import Protocol

from headrace.models.results import Labels
from headrace.video.frames import FrameBatch


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """A batch and what the model saw in it."""

    batch: FrameBatch
    labels: Labels


class Sink(Protocol):
    """Takes results, in order, from one thread."""

    def write(self, seen: Seen) -> None:
        """Take one batch.

        Raises:
            ConfigError: it cannot be written.
        """
        ...

    def close(self) -> None:
        """Finish what was written; harmless when called again."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the files it has written, in its folder."""
        ...
