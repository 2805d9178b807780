"""Videos for loaders, written once."""

import pytest

from headrace.decode.index_store import IndexStore
from training.videos import PlainFrames, write_videos


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return IndexStore(tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="session")
def videos(tmp_path_factory):
    return write_videos(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="session")
def plain(videos, store):
    return PlainFrames(videos, store)
