"""Error messages of caches, keys and spill stores, as listed in refused.txt."""

from pathlib import Path

import numpy as np
import pytest

from cache import made
from headrace.cache import cache_url, key, maintenance
from headrace.cache import spill_store as spill
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message

MODULES = (cache_url, key, maintenance, spill)


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_an_error_leaves_no_file(tmp_path, monkeypatch, call, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    error = check_message(call, message, names_in(*MODULES, made, np=np))
    assert "secret" not in str(error)
    assert list(tmp_path.iterdir()) == []
