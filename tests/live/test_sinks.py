"""The annotated video."""

from fractions import Fraction

import av
import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.live.overlay import Overlay
from headrace.live.sinks import VideoFile


@pytest.mark.parametrize("size", [(48, 64), (47, 63), (1, 1)])
def test_frames_come_back_with_their_times(tmp_path, size):
    times = [0.0, 0.04, 0.5, 0.54]
    with VideoFile(tmp_path / "out.mp4", Fraction(25)) as video:
        for k, seconds in enumerate(times):
            video.write(np.full((*size, 3), 60 * k, np.uint8), seconds)
    with av.open(str(tmp_path / "out.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        frames = list(container.decode(stream))
    assert [f.time for f in frames] == pytest.approx(times)
    assert [f.to_ndarray(format="rgb24").mean() for f in frames] == pytest.approx(
        [0, 60, 120, 180], abs=4
    )
    assert (frames[0].height, frames[0].width) == tuple(n + n % 2 for n in size)


def test_the_index_stands_in_front_so_that_browsers_play_at_once(tmp_path):
    with VideoFile(tmp_path / "out.mp4", Fraction(25)) as video:
        video.write(np.zeros((32, 32, 3), np.uint8), 0.0)
    content = (tmp_path / "out.mp4").read_bytes()
    assert 0 < content.index(b"moov") < content.index(b"mdat")


def test_times_that_do_not_advance_are_pushed_on(tmp_path):
    with VideoFile(tmp_path / "out.mp4", Fraction(0)) as video:
        for _ in range(3):
            video.write(np.zeros((32, 32, 3), np.uint8), 1.0)
    with av.open(str(tmp_path / "out.mp4")) as container:
        assert len(list(container.decode(video=0))) == 3


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot write .*; give another folder with --out"):
        VideoFile(tmp_path / "nowhere" / "out.mp4", Fraction(25))


@pytest.mark.parametrize("size", [(272, 640), (16, 16), (2160, 3840)])
def test_text_is_drawn_along_the_top_of_a_copy(size):
    frame = np.full((*size, 3), 128, np.uint8)
    drawn = Overlay(size[0]).draw(frame, "#7  mountain bike  0.71")
    assert drawn.shape == frame.shape
    assert (frame == 128).all()
    assert (drawn != 128).any()
    assert (drawn[size[0] * 3 // 4 :] == 128).all() or size[0] < 40
