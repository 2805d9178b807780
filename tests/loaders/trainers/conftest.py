"""Loaders of 113 frames in 12 batches, for a trainer."""

from functools import partial

import pytest

from headrace import FrameLoader, ShuffledFrames
from loaders.trainers.trainees import places
from loaders.videos import SIZE


@pytest.fixture
def loader(opens, videos, store):
    """Return a function that opens loaders."""
    asked = {"batch_size": 10, "sampling": ShuffledFrames(), "num_threads": 1}
    return partial(opens, FrameLoader, videos, size=SIZE, index_store=store, **asked)


@pytest.fixture
def expected(loader):
    """What two epochs hold."""
    each = loader()
    return [place for _ in range(2) for place in places(each)]
