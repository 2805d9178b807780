"""What a test does where something it needs is not here."""

import os
from typing import NoReturn

import pytest


def missing(words: str, remedy: str = "run scripts/system_packages.sh") -> NoReturn:
    """Skip the test and say what is missing; with CI=true in the environment that is a failure."""
    end = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    end(f"{words}: {remedy}")
    raise AssertionError("both raise")
