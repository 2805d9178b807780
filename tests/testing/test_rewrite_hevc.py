"""HEVC announces a second view, and its pictures stay those of the first."""

from pathlib import Path

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.testing.rewrite_hevc import announce_second_view
from headrace.testing.synth import SynthClip, write_clip
from media import read_frames, read_packets


@pytest.mark.parametrize("size", [(96, 128), (64, 96)])
def test_the_pictures_and_keyframes_stay(size: tuple[int, int], tmp_path: Path) -> None:
    clip = SynthClip(codec="hevc", container="ts", size=size, b_frames=2, num_frames=26)
    path = write_clip(tmp_path / "clip", clip)
    out = announce_second_view(path, tmp_path / "views.ts")
    pairs = list(zip(read_frames(path), read_frames(out), strict=True))
    assert all(np.array_equal(a.to_ndarray(), b.to_ndarray()) for a, b in pairs)
    assert [p.is_keyframe for p in read_packets(path)] == [p.is_keyframe for p in read_packets(out)]
    for before, after in pairs:
        assert all(data.type.name == "SEI_UNREGISTERED" for data in before.side_data)
        with pytest.raises(ValueError, match="29 is not a valid"):
            list(after.side_data)


@pytest.mark.parametrize(("codec", "container"), [("h264", "ts"), ("hevc", "mp4")])
def test_anything_but_hevc_in_ts_is_an_error(codec: str, container: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(codec=codec, container=container, num_frames=2))
    with pytest.raises(ConfigError, match=f"needs HEVC in a ts, got {codec} in clip.{container}"):
        announce_second_view(path, tmp_path / "views.ts")
