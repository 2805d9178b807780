"""Marks of tests that need a GPU, or no GPU."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import pytest
import torch

from headrace.decode.decoder_config import Backend
from headrace.decode.open_decoder import usable_backends

NO_GPU = "no NVIDIA GPU here"
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def needs_gpu(test: Callable[..., Any]) -> Callable[..., Any]:
    """Skip a test without a GPU; with REQUIRE_GPU=1 in the environment it fails instead."""
    if torch.cuda.is_available():
        return test
    if os.environ.get("REQUIRE_GPU") != "1":
        return pytest.mark.skip(reason=NO_GPU)(test)

    @wraps(test)
    def fails(*_: object, **__: object) -> NoReturn:
        pytest.fail(f"{NO_GPU}, and REQUIRE_GPU=1")

    return fails


def want_backend_of_gpu(backend: Backend) -> None:
    """Skip the running test without a GPU, or if the backend is not installed.

    With REQUIRE_GPU=1 in the environment it fails without a GPU.
    """
    if not torch.cuda.is_available():
        if os.environ.get("REQUIRE_GPU") == "1":
            pytest.fail(f"{NO_GPU}, and REQUIRE_GPU=1")
        pytest.skip(NO_GPU)
    if (why_not := usable_backends()[backend]) is not None:
        pytest.skip(why_not)
