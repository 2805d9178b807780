"""How far a loader looks ahead, inside a budget."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.sampling.costs import lookahead_for
from headrace.training.window import Window

GOPS = np.full(400, 30)


@given(
    batches=st.integers(3, 10_000),
    batch_frames=st.integers(1, 300),
    frame_bytes=st.integers(1, 10**6),
    gops=st.lists(st.integers(1, 300), min_size=1, max_size=50),
)
def test_a_window_and_two_batches_stay_inside_the_budget(batches, batch_frames, frame_bytes, gops):
    budget = batches * batch_frames * frame_bytes
    window = Window.of(
        np.array(gops), memory_budget=budget, frame_bytes=frame_bytes, batch_frames=batch_frames
    )
    assert (window.frames + 2 * batch_frames) * frame_bytes <= budget
    assert 0 <= window.later_frames + batch_frames <= window.frames
    assert window.lookahead >= batch_frames


def test_the_look_ahead_is_the_widest_that_is_expected_to_fit():
    window = Window.of(GOPS, memory_budget=2**30, frame_bytes=196_608, batch_frames=128)
    assert window.lookahead == lookahead_for(GOPS, int(0.95 * window.later_frames))
    assert window.frames == 2**30 // 196_608 - 256


def test_where_everything_fits_four_epochs_are_enough():
    window = Window.of(GOPS, memory_budget=2**40, frame_bytes=196_608, batch_frames=128)
    assert window.lookahead == 4 * 12_000


def test_a_budget_for_less_than_three_batches_says_what_is_needed():
    with pytest.raises(ConfigError, match=r"72 MiB are needed; raise it"):
        Window.of(GOPS, memory_budget=70 * 2**20, frame_bytes=196_608, batch_frames=128)


def test_codecs_are_set_aside_up_to_a_quarter_of_the_budget():
    def frames(codec_bytes):
        window = Window.of(
            GOPS,
            memory_budget=1000 * 100,
            frame_bytes=100,
            codec_bytes=codec_bytes,
            batch_frames=10,
        )
        return window.frames

    assert (frames(0), frames(2_000), frames(10**9)) == (980, 960, 730)


@pytest.mark.parametrize("codec_bytes", [0, 5_000, 10**9])
def test_what_is_said_to_be_needed_is_enough(codec_bytes):
    """Three batches of 2 frames of half a MiB take 3 MiB."""

    def window(budget):
        return Window.of(
            GOPS,
            memory_budget=budget,
            frame_bytes=2**19,
            codec_bytes=codec_bytes,
            batch_frames=2,
        )

    with pytest.raises(ConfigError, match="MiB are needed") as refused:
        window(2**20)
    needed = float(re.search(r"codecs: ([\d.]+) MiB", str(refused.value))[1])
    window(int(needed * 2**20) + 600)
    with pytest.raises(ConfigError):
        window(int(needed * 2**20) - 2_000)
