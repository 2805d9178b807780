"""Told: the words for a batch that its tensors do not hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Told:
    """Names for a reader; a batch that a trainer built anew has none, and is shown by numbers."""

    videos: tuple[str, ...] = ()
    """Of each sample, its file, or its clip of several cameras."""
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Column of labels in words → the names of its classes."""
    cameras: tuple[str, ...] = ()
    """In the order of a batch."""


NOTHING_TOLD = Told()
