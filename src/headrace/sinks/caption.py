"""What is written on a frame: what the model saw, how sure it is, which frame it is."""

from dataclasses import dataclass

from headrace.sinks.seen import Seen


@dataclass(frozen=True)
class Caption:
    """The two texts of an `Overlay`."""

    label: str
    """The likeliest class."""
    note: str
    """`93%   #120`."""


def captions(seen: Seen) -> list[Caption]:
    """Return one for each frame of a batch, in order."""
    found = seen.labels
    return [
        Caption(names[0], f"{confidence[0]:.0%}   #{index}")
        for names, confidence, index in zip(
            found.names, found.confidence, seen.batch.index, strict=True
        )
    ]
