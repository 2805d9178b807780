"""A file at full speed as a source: its frames exactly, and what damaged ones do."""

import pytest

from headrace.errors import ConfigError, DecodeError
from headrace.live.frame import LiveFrame
from headrace.runs.live.addresses import open_sources
from headrace.runtime.waiter import Waiter
from headrace.testing.damage import damage_packets
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, write_clip


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """Two dozen frames; 5, 6 and the last one are damaged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=24, gop=1))
    return str(damage_packets(path, tmp_path / "damaged.mp4", ordinals=[5, 6, 23]))


def read(path, on_error):
    (source,) = open_sources([path], "auto", on_error=on_error)
    return source, list(source.frames(0, Waiter(FakeClock()), lambda event: None))


def test_a_damaged_frame_ends_the_reading(damaged):
    with pytest.raises(DecodeError, match=r"damaged\.mp4"):
        read(damaged, "raise")


def test_what_is_left_out_is_dropped_in_its_place_and_no_clip_reaches_over_it(damaged):
    source, items = read(damaged, "skip")
    assert len(items) == 24
    frames = [item for item in items if isinstance(item, LiveFrame)]
    assert all(items[frame.number] is frame for frame in frames)
    assert [frame.run for frame in frames] == [0] * 5 + [1] * 16
    assert [loss.index for loss in source.losses] == [5, 6, 23]


def test_what_is_concealed_comes_and_is_listed(damaged):
    source, items = read(damaged, "conceal")
    assert [item.number for item in items] == list(range(24))
    assert [(loss.index, loss.is_concealed) for loss in source.losses] == [
        (5, True),
        (6, True),
        (23, True),
    ]


@pytest.mark.parametrize(("texts", "pace"), [(["FILE"], "realtime"), (["0"], "auto")])
def test_in_real_time_nothing_can_be_concealed(damaged, texts, pace):
    given = [damaged if text == "FILE" else text for text in texts]
    with pytest.raises(ConfigError, match="is for files at full speed"):
        open_sources(given, pace, on_error="conceal")
