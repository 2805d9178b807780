"""Which tests need a GPU, and which need that there is none."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import pytest
import torch

NO_GPU = "no NVIDIA GPU here"
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def needs_gpu(test: Callable[..., Any]) -> Callable[..., Any]:
    """Skip a test where there is no GPU; with REQUIRE_GPU=1 in the environment it fails there."""
    if torch.cuda.is_available():
        return test
    if os.environ.get("REQUIRE_GPU") != "1":
        return pytest.mark.skip(reason=NO_GPU)(test)

    @wraps(test)
    def fails(*_: object, **__: object) -> NoReturn:
        pytest.fail(f"{NO_GPU}, and REQUIRE_GPU=1")

    return fails
