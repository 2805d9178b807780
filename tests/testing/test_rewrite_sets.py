"""Parameter sets that are told once, each where it is new."""

import pytest

from headrace.errors import ConfigError
from headrace.testing.rewrite_sets import tell_sets_once
from headrace.testing.synth_recipes import write_recipe
from headrace.video.stream_index import StreamIndex
from media import read_frames


@pytest.mark.parametrize(
    "name", ["h264_sets_told_once_mp4", "h264_sets_told_once_mkv", "hevc_sets_told_once_mkv"]
)
def test_later_keyframes_need_what_a_packet_before_them_told(name, tmp_path):
    path = write_recipe(name, tmp_path)
    index = StreamIndex.scan(path)
    assert len(read_frames(path)) == len(index) == 96
    told = [index.told_before(gop) for gop in range(index.num_gops)]
    second = [bool(each) for each in told].index(True)
    assert 4 <= second < index.num_gops - 1
    assert not any(told[:second])
    assert all(told[second:])


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="Annex B"):
        tell_sets_once([tmp_path / "clip.mp4"], tmp_path / "out.mp4")
