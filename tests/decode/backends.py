"""The backends that are here, for tests that hold for all of them."""

import pytest

from headrace.decode.decoding import BACKENDS, Decoding
from headrace.decode.open import usable_backends

WHY_NOT = usable_backends()

EACH_BACKEND = [
    pytest.param(
        Decoding(backend=name),
        id=name,
        marks=[] if WHY_NOT[name] is None else pytest.mark.skip(reason=WHY_NOT[name]),
    )
    for name in BACKENDS
    if name != "pynvvideocodec"  # for GPUs alone
]
"""Every backend on the CPU; one that is not installed is skipped, and says why."""

needs_torchcodec = pytest.mark.skipif(
    WHY_NOT["torchcodec"] is not None, reason=WHY_NOT["torchcodec"] or ""
)
TORCHCODEC = Decoding(backend="torchcodec")
