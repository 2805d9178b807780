"""Fixtures: a short clip of numbered frames, and PyTorch's number of threads."""

import pytest
import torch

from benchmarks.live.source import numbered_clip


@pytest.fixture(scope="session")
def clip(tmp_path_factory):
    """Return a clip of four seconds, 720p."""
    return numbered_clip(tmp_path_factory.mktemp("media"), 4)


@pytest.fixture(autouse=True)
def same_threads():
    """Restore PyTorch's number of threads, which the benchmarks set for a whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
