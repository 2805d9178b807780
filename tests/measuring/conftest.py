"""Index store of the measuring tests."""

import pytest

from headrace.decode.index_store import IndexStore


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "index")
