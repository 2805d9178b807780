"""How frames wait is chosen by what packing and decoding cost, and what is asked for is kept."""

import numpy as np
import pytest

from headrace import FrameFormat, UniformFrames
from headrace.decode.packing import FFVHUFF, UTVIDEO
from headrace.loaders.hold_choice import HoldChoice, LookaheadWindow
from headrace.runtime.clock import SYSTEM_CLOCK
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
        window_of=lambda later_bytes: LookaheadWindow.of(GOPS, later_bytes=later_bytes, **room),
        sample_frames=sample_frames,
        is_random=is_random,
    )


def observe(choice, seconds_per_frame):
    """Let a choice see jobs of GOPs of 30, each frame of which takes so long to decode."""
    for num_frames in (3, 30, 11, 25, 7, 19, 28, 14):
        choice.observe(num_frames, 1e-4 + num_frames * seconds_per_frame, SMOOTH)
    return choice


def test_frames_are_packed_where_decoding_costs_more():
    made = observe(choice(), seconds_per_frame=0.05)
    assert made.packing in (UTVIDEO, FFVHUFF)
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
    assert found.packed.codec in ("utvideo", "ffvhuff")
    assert found.packed.bytes_per_frame < FRAME_BYTES
    assert found.most_held_bytes <= 60 * FRAME_BYTES
    assert plain.statistics.packed is None
    assert each.lookahead > plain.lookahead
