"""Exchange with torchcodec."""

import json

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.testing.synth import KINDS, write_clip
from headrace.video.frame_mappings import (
    check_frame_mappings,
    from_frame_mappings,
    index_from_frame_mappings,
    to_frame_mappings,
)
from headrace.video.stream_index import StreamIndex


@pytest.fixture
def index(tmp_path):
    return StreamIndex.scan(write_clip(tmp_path / "clip", KINDS["vfr_mp4"]))


def test_mappings_come_back_as_the_frames_of_the_index(index):
    found = from_frame_mappings(to_frame_mappings(index))
    assert [frame.pts for frame in found] == index.pts.tolist()
    assert [frame.duration for frame in found] == index.duration.tolist()
    assert np.flatnonzero([frame.is_keyframe for frame in found]).tolist() == [0, 12, 24, 36]
    assert check_frame_mappings(index, to_frame_mappings(index)) == []


def test_the_names_that_ffprobe_used_are_read_too():
    text = '{"frames": [{"pkt_pts": "512", "pkt_duration": "256", "key_frame": 1}]}'
    assert from_frame_mappings(text) == [(512, 256, True)]


def test_torchcodec_takes_them(index):
    decoders = pytest.importorskip("torchcodec.decoders", exc_type=Exception)
    theirs = decoders.VideoDecoder(
        str(index.source), custom_frame_mappings=to_frame_mappings(index)
    )
    times = [theirs.get_frame_at(k).pts_seconds for k in range(len(theirs))]
    assert times == pytest.approx(index.seconds_of(np.arange(len(index))).tolist())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.pop(), "47 frames are listed, the video presents 48"),
        (lambda rows: rows[3].update(pts=rows[3]["pts"] + 1), "frame 3: pts"),
        (lambda rows: rows[12].update(key_frame=0), "frame 12: key_frame 0 is listed, found 1"),
    ],
)
def test_mappings_that_disagree_are_told_by_their_first_frame(index, change, message):
    rows = json.loads(to_frame_mappings(index))
    change(rows["frames"])
    assert check_frame_mappings(index, json.dumps(rows))[0].startswith(message)


def test_an_index_is_made_from_mappings_that_fit_the_file_and_only_from_those(index, tmp_path):
    found = index_from_frame_mappings(index.source, to_frame_mappings(index))
    assert np.array_equal(found.pts, index.pts)
    other = StreamIndex.scan(write_clip(tmp_path / "other", KINDS["h264_one_frame"]))
    with pytest.raises(ConfigError, match=r"are not those of .*: 1 frames are listed, the video"):
        index_from_frame_mappings(index.source, to_frame_mappings(other))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"frames": [{}]}', '{"frames": [{"pts": "x"}]}'])
def test_what_is_no_mapping_is_refused(text):
    with pytest.raises(ConfigError, match="frame mappings must be JSON like"):
        from_frame_mappings(text)
