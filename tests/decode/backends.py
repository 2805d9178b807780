"""The installed backends, for tests of all of them."""

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
    if name != "pynvvideocodec"  # for GPUs only
]
"""Every backend on the CPU; a missing one is skipped with the reason."""

needs_torchcodec = pytest.mark.skipif(
    WHY_NOT["torchcodec"] is not None, reason=WHY_NOT["torchcodec"] or ""
)
TORCHCODEC = DecoderConfig(backend="torchcodec")
