"""Where indexes are kept, once for all tests."""

import pytest

from headrace.decode.index_store import IndexStore


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return IndexStore(tmp_path_factory.mktemp("camera-index"))
