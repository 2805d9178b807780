"""Models of the tests' own, small and quick; also found by children, by their names."""

import torch
from torch import nn


class Corners(nn.Module):
    """The mean colour of the upper left quarter, over all frames of a clip too: float [N, 3]."""

    def __init__(self, size=None):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 4.0]))
        if size is not None:
            self.size = size

    def forward(self, batch):
        height, width = batch.shape[-2] // 2, batch.shape[-1] // 2
        corner = batch[..., :height, :width].float()
        return corner.mean(dim=tuple(range(2, batch.ndim))) * self.weight


def corners():
    return Corners()


def odd_size():
    return Corners(size=24)


def other_each_time():
    model = Corners()
    model.weight.data = torch.rand(3)
    return model


def plain():
    return lambda batch: batch.float().mean(dim=(2, 3))


class _Versioned:
    version = "2"

    def __call__(self, batch):
        return batch.float().mean(dim=(2, 3))


def versioned():
    return _Versioned()


def maps():
    """Features as large as the frames."""
    return lambda batch: batch[:, 0].float()


class _SizesSeen:
    """The height and width of the batch."""

    def __init__(self, size=None):
        self.size = size

    def __call__(self, batch):
        return torch.tensor([list(batch.shape[-2:])] * len(batch))


def sizes_seen():
    return _SizesSeen()


def small():
    return _SizesSeen(size=(24, 32))


def fails_to_build():
    raise KeyError("no such setting")


def number():
    return 3


def fails():
    def call(batch):
        raise IndexError("beyond the end\nof a long story")

    return call


def fewer():
    return lambda batch: batch[1:].float()


def listing():
    return lambda batch: [1.0] * len(batch)


class Cramped(nn.Module):
    """Has memory for three samples, and for none while `is_full`."""

    def __init__(self, most=3):
        super().__init__()
        self.most, self.batches = most, []

    def forward(self, batch):
        if len(batch) > self.most:
            raise torch.OutOfMemoryError("out of memory")
        self.batches.append(len(batch))
        return batch.float().mean(dim=(2, 3))


def cramped():
    return Cramped()


def full():
    return Cramped(most=0)
