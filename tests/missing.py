"""End of a test whose requirements are missing."""

import os
from typing import NoReturn

import pytest


def missing(words: str, remedy: str = "run scripts/system_packages.sh") -> NoReturn:
    """Skip the test with what is missing; fail it with CI=true in the environment."""
    end = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    end(f"{words}: {remedy}")
    raise AssertionError("both raise")
