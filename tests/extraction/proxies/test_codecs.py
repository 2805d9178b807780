"""Which encoders there are."""

import av
import pytest

from headrace.errors import BackendError
from headrace.extraction.proxies.codecs import check_encoder


def test_an_encoder_that_is_missing_is_said_with_those_that_are_there(monkeypatch):
    monkeypatch.setattr(av, "codecs_available", {"libx264", "mjpeg", "png"})
    check_encoder("h264")
    with pytest.raises(BackendError, match=r"no encoder for hevc \(libx265\); .* h264, mjpeg;"):
        check_encoder("hevc")
