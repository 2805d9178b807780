"""Forked children, also for fixtures of a module."""

import pytest

from extraction.conftest import forking


@pytest.fixture(scope="module", autouse=True)
def forked_children():
    with forking():
        yield
