"""Open files: how many of them a loader keeps between its jobs."""

from typing import Final

MAX_OPEN_FILES: Final = 128
"""At most, however large the budget is."""
_SHARE: Final = 16
"""They take up to this part of the budget, on top of it: a sixteenth."""
_OPEN_FILE_BYTES: Final = 750_000
"""Measured: a container and a scaler of 720p H.264 in MP4 that wait for their next job."""


def max_open_files(memory_budget: int) -> int:
    """Return how many files may stay open beside a budget of so many bytes: 1 to 128."""
    return max(1, min(MAX_OPEN_FILES, memory_budget // _SHARE // _OPEN_FILE_BYTES))
