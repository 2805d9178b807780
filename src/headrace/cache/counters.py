"""How a cache served so far."""

from dataclasses import dataclass


@dataclass(kw_only=True)
class CacheCounters:
    """How a cache served so far: hits + misses = results that were asked for."""

    hits: int = 0
    """Results that came from the cache."""
    misses: int = 0
    """Results that did not, for whatever cause."""
    stored: int = 0
    """Results that were kept."""
    unstored: int = 0
    """Results that were not: the store failed, is full, or rests after failures."""
    too_large: int = 0
    """Of these, results above what the store takes."""
    damaged: int = 0
    """Entries that were not what was written; also counted as misses."""
    errors: int = 0
    """Failures of the store, whatever was asked of it."""
    read_bytes: int = 0
    """Of hits."""
    written_bytes: int = 0
    """Of what was stored."""
