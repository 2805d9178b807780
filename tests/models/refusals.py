"""How a model that cannot be had is refused."""

import re
from contextlib import contextmanager

import pytest

from headrace.errors import ConfigError


@contextmanager
def refused(*parts: str):
    """Expect a ConfigError that says each of `parts`, in this order, in one line."""
    with pytest.raises(ConfigError, match=".*".join(re.escape(part) for part in parts)) as caught:
        yield
    assert "\n" not in str(caught.value)
