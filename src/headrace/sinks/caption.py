"""What is written on a frame: what the model saw, how sure it is, which frame it is."""

from collections import Counter
from dataclasses import dataclass

from headrace.sinks.seen import Found, Seen


@dataclass(frozen=True)
class Caption:
    """The two texts of an `Overlay`."""

    label: str
    """`street sign`: the likeliest class; of a detector what was found, `dog, person ×2`."""
    note: str
    """`93%   #120`; of a detector, `#120`."""


def caption_of(seen: Seen | Found, k: int) -> Caption:
    """Return what is written on frame `k` of a batch."""
    index = seen.batch.index[k]
    if isinstance(seen, Found):
        counts = Counter(seen.boxes.labels[k])
        label = ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in counts.items())
        return Caption(label, f"#{index}")
    found = seen.labels
    return Caption(found.names[k][0], f"{found.confidence[k][0]:.0%}   #{index}")
