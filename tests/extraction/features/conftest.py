"""Indexes of the tests' videos are kept in a folder of their own."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def own_cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
