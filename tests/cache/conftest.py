"""Fake clock for tests of caches."""

import pytest

from headrace.testing.fake_clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that advances only on request."""
    return FakeClock()
