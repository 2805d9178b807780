"""Skips of tests that need a newer PyAV: see `headrace.video.pyav_version`."""

import re

import av
import pytest
from av.video.codeccontext import VideoCodecContext

from headrace.video.pyav_version import FULL

IS_FULL = hasattr(VideoCodecContext, "field_order")
needs_full_pyav = pytest.mark.skipif(
    not IS_FULL, reason=f"PyAV {av.__version__} has no GPU frames; {FULL} has"
)
_LACKING = re.compile(rf"needs PyAV {FULL}|sw_format|CudaContext|__dlpack__")


def skip_if_lacking(error: BaseException) -> None:
    """Skip the test if the error names a feature that this PyAV lacks."""
    if not IS_FULL and _LACKING.search(str(error)):
        pytest.skip(f"PyAV {av.__version__}: {error}")
