"""A layout of five clips that nobody changes, made once, and what its frames must look like."""

import pytest

from headrace.training.cameras.datasets import CameraStreamDataset
from training.cameras.clips import SIZE, PlainCameras, layout_of, write_layout


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cameras") / "videos"
    write_layout(folder)
    return folder


@pytest.fixture(scope="session")
def layout(folder):
    return layout_of(folder)


@pytest.fixture(scope="session")
def plain(layout):
    return PlainCameras(layout)


@pytest.fixture
def dataset(layout, store):
    with CameraStreamDataset(layout, num_of_set=2, size=SIZE, store=store) as dataset:
        yield dataset
