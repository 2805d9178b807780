"""A disk that runs full, and frames that fill it."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


def noise(count: int) -> Iterator[np.ndarray]:
    """Frames that cost some 35 kB each."""
    source = np.random.default_rng(0)
    for _ in range(count):
        yield source.integers(0, 256, (240, 320, 3), np.uint8)


@contextmanager
def disk_full_after(num_bytes: int) -> Iterator[None]:
    """Let no file grow beyond `num_bytes`, as on a disk that runs full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
