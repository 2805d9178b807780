"""Where the tests of measuring keep indexes."""

import pytest

from headrace.decode.index_store import IndexStore


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "index")
