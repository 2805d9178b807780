"""A clock that tests of caches move by hand."""

import pytest

from headrace.testing.fake_clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still."""
    return FakeClock()
