"""Rewritten VP9 shows the same pictures by other means."""

from pathlib import Path

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.testing.damage import keyframe_ordinals
from headrace.testing.rewrite_vp9 import intra_only, scale_references, show_existing
from headrace.testing.synth import SynthClip, read_number, write_clip
from headrace.testing.vp9_header import read_header
from media import read_frames, read_packets, rgb

RESILIENT = (("error-resilient", "1"), ("auto-alt-ref", "0"), ("lag-in-frames", "0"))


def write(path: Path, **changes: object) -> Path:
    settings = {"codec": "vp9", "container": "webm", "num_frames": 30, "gop": 10} | changes
    return write_clip(path, SynthClip(encoder_options=RESILIENT, **settings))


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write(tmp_path / "clip")


def assert_same_pictures(before: Path, after: Path) -> None:
    pairs = zip(read_frames(before), read_frames(after), strict=True)
    assert all(np.array_equal(a.to_ndarray(), b.to_ndarray()) for a, b in pairs)


@pytest.mark.parametrize("separate", [False, True])
def test_pictures_shown_later_are_the_same(separate: bool, clip: Path, tmp_path: Path) -> None:
    out = show_existing(clip, tmp_path / "out.webm", ordinals=[3, 10, 19], separate=separate)
    assert len(read_packets(out)) == (33 if separate else 30)
    assert_same_pictures(clip, out)


@pytest.mark.parametrize("separate", [False, True])
def test_intra_only_pictures_are_the_same(separate: bool, clip: Path, tmp_path: Path) -> None:
    out = intra_only(clip, tmp_path / "out.webm", ordinals=[10], separate=separate)
    assert keyframe_ordinals(clip) == (0, 10, 20)
    assert keyframe_ordinals(out) == ((0, 21) if separate else (0, 20))
    assert_same_pictures(clip, out)


def test_references_of_another_size_are_scaled(clip: Path, tmp_path: Path) -> None:
    small = write(tmp_path / "small", size=(64, 96))
    frames = read_frames(scale_references(clip, small, tmp_path / "out.webm", ordinal=10))
    assert [read_number(rgb(frame)) for frame in frames] == list(range(30))
    assert [frame.height for frame in frames] == [96] * 11 + [64] * 19


def test_only_keyframes_become_intra_only(clip: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="packet 3 is none"):
        intra_only(clip, tmp_path / "out.webm", ordinals=[3])


def test_pictures_that_adapt_to_the_last_one_are_refused(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "plain", SynthClip(codec="vp9", container="webm", num_frames=3))
    with pytest.raises(ConfigError, match="error resilient"):
        show_existing(path, tmp_path / "out.webm", ordinals=[1])


def test_a_header_is_cut_where_it_ends(clip: Path) -> None:
    key, other, *_ = (read_header(packet.payload) for packet in read_packets(clip))
    assert (key.is_keyframe, other.is_keyframe) == (True, False)
    assert key.size == f"{127:016b}{95:016b}0"
    assert key.kept_in == 0xFF
    compressed_header = int(key.rest[-16:], base=2)
    assert 0 < compressed_header < 500
