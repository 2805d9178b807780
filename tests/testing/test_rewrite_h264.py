"""A stream names another build of x264, once, and all else in it stays."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.testing.rewrite_h264 import pose_as_x264_build
from headrace.testing.synth import SynthClip, write_clip


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts", "h264"])
def test_only_the_number_of_the_build_changes(container: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(container=container))
    before = path.read_bytes()
    after = pose_as_x264_build(path, tmp_path / f"old.{container}", build=142).read_bytes()
    assert after.count(b"x264 - core 142") == before.count(b"x264 - core") == 1
    differing = [
        place for place, pair in enumerate(zip(before, after, strict=True)) if len({*pair}) > 1
    ]
    place = after.index(b"core 142") + len(b"core ")
    assert set(differing) <= {place, place + 1, place + 2}


def test_a_build_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=2))
    with pytest.raises(ConfigError, match="as many digits as"):
        pose_as_x264_build(path, tmp_path / "old.mp4", build=65)


def test_a_file_of_another_encoder_is_an_error(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(codec="mpeg4", num_frames=2))
    with pytest.raises(ConfigError, match="got 130 for none"):
        pose_as_x264_build(path, tmp_path / "old.mp4")
