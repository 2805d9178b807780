"""Cut and damaged files are cut and damaged where they should be, and nowhere else."""

from pathlib import Path

import av
import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.testing.damage import (
    concatenate,
    cut_by_stream_copy,
    damage_packets,
    drop_packets,
    ffconcat_text,
    hls_text,
    join_packets,
    keyframe_ordinals,
    rewrite_packets,
    truncate,
)
from headrace.testing.synth import KINDS, SynthClip, read_number, write_clip
from media import read_frames, read_packets, rgb

UNREADABLE = None


def numbers(path: Path) -> list[int | None]:
    """The number of every frame, whatever errors come between."""
    found: list[int | None] = []
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            try:
                found += [number(frame) for frame in packet.decode()]
            except av.error.InvalidDataError:
                continue
    return found


def number(frame: av.VideoFrame) -> int | None:
    try:
        return read_number(rgb(frame))
    except ValueError:
        return UNREADABLE


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip", KINDS["h264_b_frames"])


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_half_a_file_holds_the_first_frames(container: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(container=container))
    found = numbers(truncate(path, tmp_path / f"half.{container}", keep_fraction=0.5))
    assert 10 < len(found) < 40
    assert found[:-1] == list(range(len(found) - 1))


def test_a_fraction_outside_one_is_an_error(clip: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be in \[0, 1\], got 2"):
        truncate(clip, tmp_path / "cut.mp4", keep_fraction=2)


def test_damage_to_a_b_frame_stays_in_that_frame(clip: Path, tmp_path: Path) -> None:
    packets = read_packets(clip)
    shown = sorted(p.pts for p in packets).index(packets[15].pts)
    found = numbers(damage_packets(clip, tmp_path / "damaged.mp4", ordinals=[15]))
    assert [place for place, number in enumerate(found) if number != place] == [shown]


def test_damage_to_a_keyframe_reaches_the_end_of_its_gop(clip: Path, tmp_path: Path) -> None:
    ordinals = keyframe_ordinals(clip)[1:2]
    out = damage_packets(clip, tmp_path / "damaged.mp4", ordinals=ordinals)
    pairs = zip(read_frames(clip), read_frames(out), strict=True)
    same = [np.array_equal(rgb(sound), rgb(damaged)) for sound, damaged in pairs]
    assert [place for place, is_same in enumerate(same) if not is_same] == list(range(12, 24))


def test_damage_leaves_the_container_and_the_other_packets(clip: Path, tmp_path: Path) -> None:
    before = read_packets(clip)
    after = read_packets(damage_packets(clip, tmp_path / "damaged.mp4", ordinals=[3, 30]))
    assert [(p.pts, p.dts, p.is_keyframe) for p in before] == [
        (p.pts, p.dts, p.is_keyframe) for p in after
    ]
    differing = [i for i, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    assert differing == [3, 30]
    assert len(after[3].payload) == len(before[3].payload)


def test_damage_follows_from_the_seed(clip: Path, tmp_path: Path) -> None:
    def payload(seed: int) -> bytes:
        out = damage_packets(clip, tmp_path / "damaged.mp4", ordinals=[3], seed=seed)
        return read_packets(out)[3].payload

    assert payload(1) == payload(1) != payload(2)


def test_a_dropped_packet_is_a_missing_frame(clip: Path, tmp_path: Path) -> None:
    packets = read_packets(clip)
    shown = sorted(p.pts for p in packets).index(packets[20].pts)
    found = numbers(drop_packets(clip, tmp_path / "dropped.mp4", ordinals=[20]))
    assert found == [number for number in range(48) if number != shown]


def test_a_cut_in_the_middle_of_a_gop_starts_without_a_keyframe(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", KINDS["mpeg4"])
    out = cut_by_stream_copy(path, tmp_path / "cut.mp4", start_ordinal=5)
    assert not read_packets(out)[0].is_keyframe
    found = numbers(out)
    assert UNREADABLE in found[:4]
    assert found[-30:] == list(range(18, 48))


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_a_stream_cut_at_a_cra_drops_its_leading_pictures(suffix: str, tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", KINDS["hevc_open_gop"])
    start = keyframe_ordinals(path)[1]
    out = cut_by_stream_copy(path, tmp_path / f"cut.{suffix}", start_ordinal=start)
    assert len(read_packets(out)) == 48 - start == 39
    assert numbers(out) == list(range(12, 48))


def test_a_cut_keeps_the_times(clip: Path, tmp_path: Path) -> None:
    start = keyframe_ordinals(clip)[1]
    kept = read_frames(cut_by_stream_copy(clip, tmp_path / "cut.mp4", start_ordinal=start))
    assert [f.pts for f in kept] == [f.pts for f in read_frames(clip)[12:]]


def test_joined_streams_change_size_on_the_way(tmp_path: Path) -> None:
    parts = [
        write_clip(tmp_path / "small", SynthClip(container="h264", size=(64, 96), num_frames=5)),
        write_clip(tmp_path / "large", SynthClip(container="h264", num_frames=5)),
    ]
    frames = read_frames(concatenate(parts, tmp_path / "joined.h264"))
    assert [read_number(rgb(frame)) for frame in frames] == [*range(5), *range(5)]
    assert [frame.height for frame in frames] == [64] * 5 + [96] * 5


def test_streams_joined_by_packets_have_one_clock(tmp_path: Path) -> None:
    parts = [
        write_clip(tmp_path / "small", SynthClip(container="ts", size=(64, 96), num_frames=5)),
        write_clip(tmp_path / "large", SynthClip(container="ts", num_frames=5)),
    ]
    frames = read_frames(join_packets(parts, tmp_path / "joined.mkv"))
    assert [read_number(rgb(frame)) for frame in frames] == [*range(5), *range(5)]
    assert [frame.height for frame in frames] == [64] * 5 + [96] * 5
    assert [frame.pts for frame in frames] == [0, 33, 67, 100, 133, 167, 200, 233, 267, 300]


def test_packets_are_replaced_by_others(clip: Path, tmp_path: Path) -> None:
    before = read_packets(clip)

    def swap(ordinal: int, payload: bytes) -> list[bytes]:
        return [before[0].payload] if ordinal == 12 else [payload]

    after = read_packets(rewrite_packets(clip, tmp_path / "swapped.mp4", swap))
    assert after[12].payload == before[0].payload
    assert [p.pts for p in after] == [p.pts for p in before]


def test_hostile_texts_look_like_what_they_are(tmp_path: Path) -> None:
    playlist = hls_text(tmp_path / "playlist.mp4", names=["http://example.invalid/a.ts"])
    assert playlist.read_text().startswith("#EXTM3U\n")
    assert "\nhttp://example.invalid/a.ts\n" in playlist.read_text()
    script = ffconcat_text(tmp_path / "script.mp4", names=["clip.mp4"])
    assert script.read_text() == "ffconcat version 1.0\nfile 'clip.mp4'\n"


def test_a_script_is_followed_by_a_reader_that_allows_it(clip: Path, tmp_path: Path) -> None:
    script = ffconcat_text(tmp_path / "script.mp4", names=[clip.name])
    assert len(read_frames(script)) == 48
