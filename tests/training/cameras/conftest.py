"""What frames of the layout of five clips must look like, and a dataset of it."""

import pytest

from headrace.training.cameras.datasets import CameraStreamDataset
from training.cameras.clips import SIZE, PlainCameras


@pytest.fixture(scope="session")
def plain(layout):
    return PlainCameras(layout)


@pytest.fixture
def dataset(opens, layout, store):
    return opens(CameraStreamDataset, layout, num_of_set=2, size=SIZE, store=store)
