"""What the system allows this process."""

import resource

_OURS = 0.5
"""Of the files that may be open, the rest is left to everything else in the process."""


def most_open_files() -> int:
    """Return how many files headrace may keep open: half of what the system allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(1, int(soft * _OURS))
