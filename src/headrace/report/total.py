"""One line of the totals."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Total:
    """One line of the totals."""

    label: str
    value: str
    """With its unit."""
    reading: str
    """How to read it, one phrase."""
