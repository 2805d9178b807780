"""Loaders of 113 frames in 12 batches, for a trainer."""

import pytest

from headrace.sampling.frames import Permutation
from headrace.training.loader import FrameLoader
from training.trainers.trainees import places
from training.videos import SIZE


@pytest.fixture
def loader(videos, store):
    """Return a function that opens loaders, and closes them at the end."""
    opened = []

    def open_loader(**options):
        options = {"batch_size": 10, "sampling": Permutation(), "workers": 1, **options}
        opened.append(FrameLoader(videos, size=SIZE, store=store, **options))
        return opened[-1]

    yield open_loader
    for each in opened:
        each.close()


@pytest.fixture
def expected(loader):
    """What two epochs hold."""
    each = loader()
    return [place for _ in range(2) for place in places(each)]
