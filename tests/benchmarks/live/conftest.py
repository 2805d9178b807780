"""A short clip whose frames carry their numbers, and PyTorch's threads as they were."""

import pytest
import torch

from benchmarks.live.source import numbered_clip


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    """Four seconds of 720p."""
    return numbered_clip(tmp_path_factory.mktemp("media"), 4)


@pytest.fixture(autouse=True)
def same_threads():
    """The benchmarks set them for a process of their own."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
