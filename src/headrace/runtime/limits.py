"""What the system allows this process."""

import resource

from headrace.errors import ConfigError

_OURS = 0.5
"""Of the files that may be open, the rest is left to everything else in the process."""


def most_open_files() -> int:
    """Return how many files headrace may keep open: half of what the system allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(1, int(soft * _OURS))


def files_to_keep_open(needed: int, num_of_file: int | None) -> int:
    """Return how many of the `needed` files stay open: all, or as many as told or allowed.

    Raises:
        ConfigError: more than the system allows are asked for.
    """
    most = most_open_files()
    if num_of_file is not None and num_of_file > most:
        raise ConfigError(
            f"num_of_file={num_of_file} files were to stay open, the system allows this process "
            f"{most} besides its others; ask for fewer, or raise the limit (ulimit -n)"
        )
    return min(needed, num_of_file or most)
