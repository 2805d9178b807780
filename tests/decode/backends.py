"""The backends that are here, for tests that hold for all of them."""

import pytest

from headrace.decode.decoder_config import BACKENDS, DecoderConfig
from headrace.decode.open_decoder import usable_backends

WHY_NOT = usable_backends()

EACH_BACKEND = [
    pytest.param(
        DecoderConfig(backend=name),
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
TORCHCODEC = DecoderConfig(backend="torchcodec")
