"""The tables of an MP4 lie as asked, and all else in the file stays."""

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Literal

import av
import pytest

from headrace.errors import ConfigError
from headrace.testing.damage_mp4 import (
    hold_times,
    lie_about_dimensions,
    lie_about_keyframes,
    lie_about_sample_count,
    split_edit_list,
    zero_display_matrix,
)
from headrace.testing.synth import KINDS, read_number, write_clip, write_streams
from media import read_frames, read_packets, rgb

Lie = Literal["every", "first", "shifted"]


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip", KINDS["h264_b_frames"])


def indexed_keyframes(path: Path) -> list[int]:
    """Which samples the container's own index calls keyframes."""
    with av.open(str(path)) as container:
        entries = container.streams.video[0].index_entries
        return [place for place, entry in enumerate(entries) if entry.is_keyframe]


def numbers(path: Path) -> list[int]:
    return [read_number(rgb(frame)) for frame in read_frames(path)]


@pytest.mark.parametrize(
    ("lie", "expected"),
    [("every", list(range(48))), ("first", [0]), ("shifted", [0, 13, 25, 37])],
)
def test_the_index_lies_about_keyframes(
    lie: Lie, expected: list[int], clip: Path, tmp_path: Path
) -> None:
    assert indexed_keyframes(clip) == [0, 12, 24, 36]
    out = lie_about_keyframes(clip, tmp_path / "lying.mp4", lie=lie)
    assert indexed_keyframes(out) == expected
    assert numbers(out) == list(range(48))


@pytest.mark.parametrize(
    ("kind", "truth", "believed"),
    [
        ("h264_b_frames", [0, 12, 24, 36], False),
        ("hevc", [0, 12, 24, 36], True),
        ("mpeg4", [0, 10, 20, 30, 40], True),
    ],
)
def test_packets_repeat_the_lie_unless_a_parser_knows_better(
    kind: str, truth: list[int], believed: bool, tmp_path: Path
) -> None:
    path = write_clip(tmp_path / "clip", KINDS[kind])
    out = lie_about_keyframes(path, tmp_path / "lying.mp4", lie="every")
    flagged = [place for place, packet in enumerate(read_packets(out)) if packet.is_keyframe]
    assert flagged == (list(range(48)) if believed else truth)


def test_an_edit_list_of_two_segments_skips_what_lies_between(clip: Path, tmp_path: Path) -> None:
    segments = [(Fraction(5, 30), Fraction(10, 30)), (Fraction(30, 30), Fraction(12, 30))]
    out = split_edit_list(clip, tmp_path / "edited.mp4", segments=segments)
    assert numbers(out) == [*range(5, 15), *range(30, 42)]
    times = [frame.pts * frame.time_base for frame in read_frames(out)]
    assert times[:10] == [Fraction(place, 30) for place in range(10)]
    assert all(before < after for before, after in pairwise(times))
    assert len(read_packets(out)) > 22


def test_the_edit_list_of_another_stream_stays(tmp_path: Path) -> None:
    path = write_streams(tmp_path / "two", [KINDS["h264_b_frames"], KINDS["h264"]])
    out = split_edit_list(path, tmp_path / "edited.mp4", segments=[(Fraction(1), Fraction(1, 3))])
    assert numbers(out) == list(range(30, 40))
    assert [read_number(rgb(frame)) for frame in read_frames(out, 1)] == list(range(48))


def test_dimensions_lie_and_the_stream_does_not(clip: Path, tmp_path: Path) -> None:
    out = lie_about_dimensions(clip, tmp_path / "lying.mp4")
    before, after = clip.read_bytes(), out.read_bytes()
    assert len(before) == len(after)
    assert before.count(b"\xff\xff\x00\x00\xff\xff\x00\x00") == 0
    assert after.count(b"\xff\xff\x00\x00\xff\xff\x00\x00") == 1
    place = after.index(b"avc1", after.index(b"stsd")) - 4
    assert after[place + 32 : place + 36] == b"\xff\xff\xff\xff"
    assert numbers(out) == list(range(48))


def test_an_absurd_sample_count_cannot_be_opened(clip: Path, tmp_path: Path) -> None:
    out = lie_about_sample_count(clip, tmp_path / "lying.mp4")
    with pytest.raises(av.error.InvalidDataError):
        read_packets(out)


def test_a_large_sample_count_gives_no_packets(clip: Path, tmp_path: Path) -> None:
    out = lie_about_sample_count(clip, tmp_path / "lying.mp4", count=60_000_000)
    assert read_packets(out) == []


def test_a_matrix_of_zeros_is_no_rotation(clip: Path, tmp_path: Path) -> None:
    out = zero_display_matrix(clip, tmp_path / "zero.mp4")
    assert read_frames(out)[0].rotation == -(1 << 31)
    assert numbers(out) == list(range(48))


def test_a_file_without_the_table_is_an_error(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", KINDS["mjpeg"])
    with pytest.raises(ConfigError, match="no box 'stss' in 'stbl'"):
        lie_about_keyframes(path, tmp_path / "lying.mp4", lie="first")


def test_a_file_that_is_no_mp4_is_an_error(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", KINDS["ffv1"])
    with pytest.raises(ConfigError, match="no box 'moov'"):
        zero_display_matrix(path, tmp_path / "zero.mp4")


def test_samples_that_last_zero_ticks_repeat_their_time(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", KINDS["h264"])
    out = hold_times(path, tmp_path / "held.mp4", hold=4)
    assert [p.pts for p in read_packets(out)] == [2048 * (n // 4) for n in range(48)]
    assert numbers(out) == list(range(48))


def test_times_that_differ_already_cannot_be_held(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", KINDS["vfr_mp4"])
    with pytest.raises(ConfigError, match="has durations that differ"):
        hold_times(path, tmp_path / "held.mp4")
