"""Small custom models for tests; child processes import them by name."""

import threading

import torch
from torch import nn


class Corners(nn.Module):
    """Mean color of the upper left quarter, over all frames of a clip: float [N, 3]."""

    def __init__(self, size=None):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0, 4.0]))
        if size is not None:
            self.size = size

    def forward(self, batch):
        height, width = batch.shape[-2] // 2, batch.shape[-1] // 2
        corner = batch[..., :height, :width].float()
        return corner.mean(dim=tuple(range(2, batch.ndim))) * self.weight


def odd_size():
    return Corners(size=24)


def other_each_time():
    model = Corners()
    model.weight.data = torch.rand(3)
    return model


def plain():
    return lambda batch: batch.float().mean(dim=(2, 3))


def with_a_lock():
    model = Corners()
    model.lock = threading.Lock()
    return model


def with_a_lock_and_version():
    model = with_a_lock()
    model.version = "1"
    return model


class Versioned:
    version = "2"

    def __call__(self, batch):
        return batch.float().mean(dim=(2, 3))


def maps():
    """Features as large as the frames."""
    return lambda batch: batch[:, 0].float()


def numbers_or_colors():
    """A number for wide frames, three for others."""
    return lambda batch: batch.float().mean((1, 2, 3) if batch.shape[-1] > 100 else (2, 3))


class SizesSeen:
    """Height and width of the batch."""

    def __init__(self, size=None):
        self.size = size

    def __call__(self, batch):
        return torch.tensor([list(batch.shape[-2:])] * len(batch))


def small():
    return SizesSeen(size=(24, 32))


class Pixels:
    """Pixels of the input: float [N, 3 * height * width]."""

    size = (24, 32)

    def __call__(self, batch):
        return batch.flatten(1).float()


def fails_to_build():
    raise KeyError("no such setting")


def loads_other_weights():
    torch.nn.Linear(2, 2).load_state_dict({"fc.weight": torch.zeros(2, 2)})


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


def scalar():
    return lambda batch: batch.float().mean()


class Learner(nn.Module):
    """Model with other features in training mode, and running statistics."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm2d(3), nn.Dropout(0.5)
        self.drop.eval()

    def forward(self, batch):
        return self.drop(self.norm(batch.float())).mean(dim=(2, 3))


LEARNER = Learner()


def learner():
    """Return the same model each time, as a program that trains it does."""
    return LEARNER


class Cramped(nn.Module):
    """Model with memory for batches of up to `max_samples`."""

    def __init__(self, max_samples=3):
        super().__init__()
        self.max_samples, self.batches = max_samples, []

    def forward(self, batch):
        if len(batch) > self.max_samples:
            raise torch.OutOfMemoryError("out of memory")
        self.batches.append(len(batch))
        return batch.float().mean(dim=(2, 3))


def full():
    return Cramped(max_samples=0)
