"""What every backend keeps to, by PyNvVideoCodec: played on the CPU, and on a GPU.

What is played is our reading of its interface, which no GPU has confirmed; the tests of `gpu` do
so, where there is one and the extra `pynvvideocodec`.
"""

import pytest

from decode.gpus import want_backend_of_gpu
from decode.pynvvideocodec_played import plays
from decode.test_protocol import (  # noqa: F401 - fixtures and tests that hold for it
    clip,
    decoder,
    test_a_decoder_that_rested_goes_on,
    test_a_file_that_changed_or_is_gone_is_no_longer_read,
    test_a_frame_that_is_not_there_is_refused,
    test_frames_are_shaped_as_for_any_backend,
    test_frames_come_in_order_and_none_besides,
    test_frames_of_a_real_clip_are_those_of_a_linear_decode,
    test_no_frame_is_overwritten_by_a_later_call,
    test_the_stream_that_was_asked_for_is_read,
    test_video_in_memory_is_read,
    test_what_it_cost_is_counted,
)
from headrace.decode.decoding import Decoding


@pytest.fixture(params=["played", "gpu"])
def decoding(request, monkeypatch):
    """PyNvVideoCodec on GPU 0, or played in its place."""
    if request.param == "played":
        plays(monkeypatch)
    else:
        want_backend_of_gpu("pynvvideocodec")
    return Decoding(backend="pynvvideocodec", device="cuda:0")
