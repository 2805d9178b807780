"""Lookahead window inside a budget, and the choice of how frames wait, by measured costs."""

import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError, FrameFormat, UniformFrames
from headrace.decode.packing import UTVIDEO, UTVIDEO_LEFT
from headrace.loaders.hold_choice import HoldChoice, LookaheadWindow
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.sampling.decode_cost import lookahead_for
from loaders.videos import FRAME_BYTES, contents

SHAPE = FrameFormat(size=(64, 64))
RAW = 64 * 64 * 3
GOPS = np.full(200, 30)
SMOOTH = np.tile(np.arange(64, dtype=np.uint8)[:, None, None], (1, 64, 3))


def choice(hold="auto", *, frames=400, is_random=True, sample_frames=1):
    """Return the choice of a loader whose budget has room for so many frames as pixels."""
    room = {"memory_budget": (frames + 3 * 16) * RAW, "frame_bytes": RAW, "batch_frames": 16}
    return HoldChoice(
        **{"hold": hold, "shape": SHAPE, "gop_lengths": GOPS, "clock": SYSTEM_CLOCK},
        window_of=partial(LookaheadWindow.of, GOPS, size=SHAPE.size, **room),
        sample_frames=sample_frames,
        is_random=is_random,
    )


def observe(choice, seconds_per_frame):
    """Let a choice see jobs of GOPs of 30, each frame of which takes so long to decode."""
    for num_frames in (3, 30, 11, 25, 7, 19, 28, 14):
        choice.observe(num_frames, 1e-4 + num_frames * seconds_per_frame, [SMOOTH])
    return choice


def test_frames_are_packed_where_decoding_costs_more():
    made = observe(choice(), seconds_per_frame=0.05)
    assert made.packing in (UTVIDEO, UTVIDEO_LEFT)
    assert made.facts.ratio > 2
    assert made.facts.bytes_per_frame == made.bytes_per_frame < RAW / 2
    plain = choice("rgb")
    assert made.window.later_frames > 2 * plain.window.later_frames
    assert made.limits() > plain.limits()


def test_frames_wait_as_pixels_where_packing_costs_more():
    made = observe(choice(), seconds_per_frame=1e-9)
    assert (made.packing, made.facts, made.is_open) == (None, None, False)
    assert made.limits() == choice("rgb").limits()


@pytest.mark.parametrize(
    ("asked", "packs"),
    [
        ({"hold": "rgb"}, False),
        ({"hold": "yuv420"}, False),
        ({"hold": "packed"}, True),
        ({"hold": "packed", "is_random": False}, True),
        ({"is_random": False}, False),
        ({"frames": 30_000}, False),
        ({"sample_frames": 30}, False),
    ],
    ids=["rgb", "yuv420", "packed", "packed in order", "in order", "all fit", "whole GOPs"],
)
def test_explicit_formats_and_trivial_choices(asked, packs):
    made = observe(choice(**asked), seconds_per_frame=1e-9 if asked.get("sample_frames") else 0.05)
    assert (made.packing is not None) == packs


def test_the_window_follows_the_size_of_packed_frames():
    made = observe(choice("packed"), seconds_per_frame=0.05)
    before = made.window.later_frames
    made.count_packed([RAW // 2] * 1000)
    assert made.window.later_frames < before
    made.count_packed([RAW // 64] * 100_000)
    assert made.window.later_frames > before


def test_packed_frames_in_waiting_stay_in_the_budget_and_are_reported(loader):
    """Frames of noise cannot be packed; these can."""
    options = {"sampling": UniformFrames(), "memory_budget": 60 * FRAME_BYTES}
    each, plain = (loader(hold=hold, **options) for hold in ("packed", "rgb"))
    assert contents(each) == contents(plain)
    found = each.statistics
    assert found.packed.codec == "utvideo"
    assert found.packed.bytes_per_frame < FRAME_BYTES
    assert found.most_held_bytes <= 60 * FRAME_BYTES
    assert plain.statistics.packed is None
    assert each.lookahead > plain.lookahead


WINDOW = partial(
    *(LookaheadWindow.of, np.tile(GOPS, 2)), size=(256, 256), frame_bytes=196_608, batch_frames=128
)


@given(
    batches=st.integers(3, 10_000),
    batch_frames=st.integers(1, 300),
    frame_bytes=st.integers(1, 10**6),
    gops=st.lists(st.integers(1, 300), min_size=1, max_size=50),
)
def test_a_window_and_two_batches_stay_inside_the_budget(batches, batch_frames, frame_bytes, gops):
    budget = batches * batch_frames * frame_bytes
    sizes = {"size": (1, 1), "frame_bytes": frame_bytes, "batch_frames": batch_frames}
    window = LookaheadWindow.of(np.array(gops), memory_budget=budget, **sizes)
    assert window.held_bytes + 2 * batch_frames * frame_bytes <= budget
    assert 0 <= window.later_frames + batch_frames <= window.held_bytes // frame_bytes
    assert window.lookahead >= batch_frames


def test_the_look_ahead_is_the_widest_that_is_expected_to_fit():
    window = WINDOW(memory_budget=2**30)
    assert window.lookahead == lookahead_for(np.tile(GOPS, 2), int(0.95 * window.later_frames))
    assert window.held_bytes == 2**30 - 256 * 196_608
    # Where everything fits, four epochs are enough.
    assert WINDOW(memory_budget=2**40).lookahead == 4 * 12_000


def test_a_budget_below_three_batches_is_refused(refused):
    refused("budget")


def test_codecs_are_set_aside_up_to_a_quarter_of_the_budget():
    of = partial(WINDOW, memory_budget=1000 * 100, frame_bytes=100, batch_frames=10)
    windows = [of(codec_bytes=codec_bytes).held_bytes for codec_bytes in (0, 2_000, 10**9)]
    assert windows == [98_000, 96_000, 73_000]


@pytest.mark.parametrize("codec_bytes", [0, 5_000, 10**9])
def test_the_size_in_the_error_is_enough(codec_bytes):
    """Three batches of 2 frames of half a MiB take 3 MiB."""
    of = partial(WINDOW, frame_bytes=2**19, codec_bytes=codec_bytes, batch_frames=2)
    with pytest.raises(ConfigError, match="MiB are needed") as refused:
        of(memory_budget=2**20)
    needed = float(re.search(r"codecs: ([\d.]+) MiB", str(refused.value))[1])
    of(memory_budget=int(needed * 2**20) + 600)
    with pytest.raises(ConfigError):
        of(memory_budget=int(needed * 2**20) - 2_000)
