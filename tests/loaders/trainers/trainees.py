"""A model small enough to train in a test, which records its inputs."""

import torch
from torch import nn

from loaders.videos import samples


class Probe(nn.Module):
    """Predicts the video of a frame from its mean colour; records its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 4)
        self.seen: list[list[tuple[int, int]]] = []

    def forward(self, frames, video, index, **_):
        self.seen += places([{"video": video, "index": index}])
        scores = self.head(frames.float().mean((-1, -2)) / 255)
        return {"loss": nn.functional.cross_entropy(scores, video), "logits": scores}


def places(batches) -> list[list[tuple[int, int]]]:
    """Return the video and index of each sample, batch by batch."""
    return [list(samples(batch, "video", "index")) for batch in batches]


def is_trained(module: nn.Module, before: torch.Tensor) -> bool:
    """Return whether training moved the weights of a module."""
    return not torch.equal(module.head.weight.detach().cpu(), before)
