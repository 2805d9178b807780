"""Clips are written where they should lie, the same each time, and as many streams as asked."""

from fractions import Fraction
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.testing.synth import (
    KINDS,
    SynthClip,
    Timing,
    read_number,
    write_clip,
    write_streams,
)
from media import read_frames, rgb


def test_the_suffix_is_the_containers(tmp_path: Path) -> None:
    clip = SynthClip(num_frames=2, container="mkv")
    assert write_clip(tmp_path / "v1.5", clip) == tmp_path / "v1.5.mkv"
    assert write_clip(tmp_path / "b.mkv", clip) == tmp_path / "b.mkv"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_clip_is_the_same_file(kind: str, tmp_path: Path) -> None:
    first, second = (write_clip(tmp_path / name, KINDS[kind]) for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_a_file_holds_several_streams(container: str, tmp_path: Path) -> None:
    clips = [
        SynthClip(container=container, num_frames=20, b_frames=2),
        SynthClip(container=container, num_frames=7, size=(64, 64), frame_rate=Fraction(10)),
    ]
    path = write_streams(tmp_path / "two", clips)
    for stream, clip in enumerate(clips):
        frames = read_frames(path, stream)
        assert [read_number(rgb(frame)) for frame in frames] == list(range(clip.num_frames))
        assert (frames[0].height, frames[0].width) == clip.size


def test_streams_of_one_file_share_a_container(tmp_path: Path) -> None:
    clips = [SynthClip(container="mp4"), SynthClip(container="mkv")]
    with pytest.raises(ConfigError, match=r"share one container, got \['mkv', 'mp4'\]"):
        write_streams(tmp_path / "two", clips)


def test_a_codec_the_container_cannot_hold_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not support"):
        write_clip(tmp_path / "clip", SynthClip(codec="vp9", container="h264"))


def test_a_start_between_frames_is_kept(tmp_path: Path) -> None:
    clip = SynthClip(num_frames=3, timing=Timing(start_seconds=Fraction(1, 100)))
    frames = read_frames(write_clip(tmp_path / "clip", clip))
    assert [f.pts * f.time_base for f in frames] == list(clip.pts_seconds)
