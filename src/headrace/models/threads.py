"""How many threads PyTorch uses for one operation on the CPU."""

import torch


def set_threads(threads: int | None) -> None:
    """Use so many in this process from now on; None leaves PyTorch's choice."""
    if threads is not None:
        torch.set_num_threads(threads)
