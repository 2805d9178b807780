"""Cache folder of the tests, and folders of features."""

import pytest

from extraction.features.feature_rows import facts, write_folder
from headrace import read_features
from headrace.extraction.features.table_store import write_tables


@pytest.fixture(scope="module", autouse=True)
def own_cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def folder(tmp_path):
    """Return a folder with three videos of two runs: see `write_folder`."""
    return write_folder(tmp_path / "f")


@pytest.fixture
def features(folder):
    return read_features(folder)


@pytest.fixture
def write(tmp_path):
    """Return a function that writes rows to tables in the folder of the test."""
    return lambda *rows, **fields: list(write_tables(tmp_path, rows, facts(**fields)))
