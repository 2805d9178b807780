"""Datasets for the tests, in a module that spawned workers can import."""

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Numbers(Dataset[tuple[torch.Tensor, int]]):
    """Item i is an image filled with i plus a random number, drawn by PyTorch's generator."""

    def __init__(self, count: int = 48) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 4, 4), float(index)) + torch.rand(()), index


class Stream(IterableDataset[int]):
    """Numbers below 40, split among the workers."""

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, 40, step))


def marked(worker: int) -> None:
    """A `worker_init_fn` that changes the dataset of its worker."""
    info = get_worker_info()
    assert isinstance(info.dataset, Numbers)
    info.dataset.count = 1000 + worker


class Broken(Numbers):
    """Fails at item 20."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == 20:
            raise ValueError("item 20 is broken")
        return super().__getitem__(index)
