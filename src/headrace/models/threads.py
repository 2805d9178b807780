"""How many threads PyTorch uses for one operation on the CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def operation_threads(threads: int | None) -> Iterator[None]:
    """Use so many inside, also in threads that are started there; None leaves PyTorch's choice.

    The setting is the process's: two of these must not overlap.
    """
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
