"""Which frames make a clip."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.boundary import clip_indices, clip_span


@pytest.mark.parametrize(
    ("total", "start", "num_frames", "stride", "boundary", "expected"),
    [
        (100, 0, 4, 2, "error", [0, 2, 4, 6]),
        (7, 0, 4, 2, "error", [0, 2, 4, 6]),
        (6, 0, 4, 2, "repeat_last", [0, 2, 4, 4]),
        (6, 1, 5, 2, "wrap", [1, 3, 5, 1, 3]),
        (5, 4, 3, 1, "repeat_last", [4, 4, 4]),
        (5, 4, 3, 1, "wrap", [4, 4, 4]),
        (1, 0, 1, 9, "error", [0]),
    ],
)
def test_a_clip_takes_these_frames(total, start, num_frames, stride, boundary, expected):
    assert clip_indices(total, start, num_frames, stride, boundary).tolist() == expected


def test_a_clip_that_does_not_fit_says_how_many_frames_there_are_and_are_possible():
    with pytest.raises(ConfigError) as caught:
        clip_indices(60, 50, 20, 2)
    assert str(caught.value) == (
        "20 frames at stride 2 from frame 50 need 89 frames, the video has 60: 5 are possible; "
        "ask for fewer, or for boundary 'repeat_last' or 'wrap'"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 0, 0, 1), "num_frames must be an integer >= 1, got 0"),
        ((10, 0, 1, 0), "stride must be an integer >= 1, got 0"),
        ((10, 0, 1.0, 1), "num_frames must be an integer >= 1, got 1.0"),
        ((10, 1.5, 1, 1), r"start must be a frame of the video, .* \(0 to 9\), got 1.5"),
        ((10, 10, 1, 1), r"start must be a frame of the video, which has 10 frames \(0 to 9\)"),
        ((10, -1, 1, 1), "got -1"),
        ((10, 0, 1, 1, "reflect"), "boundary must be one of error, repeat_last, wrap"),
    ],
)
def test_an_impossible_clip_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        clip_indices(*arguments)


@given(
    total=st.integers(1, 50),
    start=st.integers(0, 49),
    num_frames=st.integers(1, 20),
    stride=st.integers(1, 9),
    boundary=st.sampled_from(["repeat_last", "wrap"]),
)
def test_every_index_exists_and_lies_on_the_stride(total, start, num_frames, stride, boundary):
    start %= total
    indices = clip_indices(total, start, num_frames, stride, boundary)
    assert len(indices) == num_frames
    assert indices[0] == start
    assert ((indices >= start) & (indices < total)).all()
    assert ((indices - start) % stride == 0).all()
    if start + clip_span(num_frames, stride) <= total:
        assert np.array_equal(indices, clip_indices(total, start, num_frames, stride, "error"))
