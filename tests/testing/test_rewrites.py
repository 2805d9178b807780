"""Cut, damaged and rewritten files differ only where they should."""

from fractions import Fraction
from itertools import pairwise

import av
import numpy as np
import pytest

from headrace.testing import damage
from headrace.testing.damage import damage_packets, keyframe_ordinals
from headrace.testing.synth import KINDS, SynthClip, write_clip
from media import read_frames, read_packets
from testing.reading import decode
from tests.kit import rewrite_mp4, rewrite_pes


@pytest.fixture
def clip(written):
    """48 frames of H.264, GOPs of 12 with B-frames."""
    return written("h264_b_frames")


def numbers(path, stream=0):
    return decode(path, stream).numbers


def same_pictures(before, after):
    pairs = zip(read_frames(before), read_frames(after), strict=True)
    return [np.array_equal(a.to_ndarray(), b.to_ndarray()) for a, b in pairs]


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts"])
def test_half_a_file_has_the_first_frames(container, written, tmp_path):
    path = written(SynthClip(container=container))
    found = numbers(damage.truncate(path, tmp_path / f"half.{container}", keep_fraction=0.5))
    assert 10 < len(found) < 40
    assert found[:-1] == list(range(len(found) - 1))


def test_damage_to_a_b_frame_stays_in_that_frame_and_a_dropped_one_is_missing(clip, tmp_path):
    times = [packet.pts for packet in read_packets(clip)]
    shown = [sorted(times).index(times[ordinal]) for ordinal in (15, 20)]
    found = numbers(damage_packets(clip, tmp_path / "damaged.mp4", ordinals=[15]))
    assert [place for place, number in enumerate(found) if number != place] == shown[:1]
    found = numbers(damage.drop_packets(clip, tmp_path / "dropped.mp4", ordinals=[20]))
    assert found == [number for number in range(48) if number != shown[1]]


def test_damage_to_a_keyframe_reaches_the_end_of_its_gop(clip, tmp_path):
    out = damage_packets(clip, tmp_path / "damaged.mp4", ordinals=keyframe_ordinals(clip)[1:2])
    other = [place for place, same in enumerate(same_pictures(clip, out)) if not same]
    assert other == list(range(12, 24))


def test_damage_depends_on_the_seed_and_keeps_other_packets(clip, tmp_path):
    def damaged(seed=0):
        out = tmp_path / "damaged.mp4"
        return read_packets(damage_packets(clip, out, ordinals=[3, 30], seed=seed))

    before, after = read_packets(clip), damaged()
    empty = [[each._replace(payload=b"") for each in packets] for packets in (before, after)]
    assert empty[0] == empty[1]
    assert [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [3, 30]
    assert len(after[3].payload) == len(before[3].payload)
    assert damaged(1)[3].payload == damaged(1)[3].payload != damaged(2)[3].payload


def test_a_cut_in_the_middle_of_a_gop_starts_without_a_keyframe(written, tmp_path):
    out = damage.cut_by_stream_copy(written("mpeg4"), tmp_path / "cut.mp4", start_ordinal=5)
    assert not read_packets(out)[0].is_keyframe
    found = numbers(out)
    assert None in found[:4]
    assert found[-30:] == list(range(18, 48))


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_a_stream_cut_at_a_cra_drops_its_leading_pictures(suffix, written, tmp_path):
    path = written("hevc_open_gop")
    start = keyframe_ordinals(path)[1]
    out = damage.cut_by_stream_copy(path, tmp_path / f"cut.{suffix}", start_ordinal=start)
    assert len(read_packets(out)) == 48 - start == 39
    assert numbers(out) == list(range(12, 48))


def test_a_cut_keeps_the_times(clip, tmp_path):
    start = keyframe_ordinals(clip)[1]
    out = damage.cut_by_stream_copy(clip, tmp_path / "cut.mp4", start_ordinal=start)
    assert [f.pts for f in read_frames(out)] == [f.pts for f in read_frames(clip)[12:]]


@pytest.mark.parametrize(
    ("join", "container", "suffix", "times"),
    [
        (damage.concatenate, "h264", "h264", None),
        (damage.join_packets, "ts", "mkv", [0, 33, 67, 100, 133, 167, 200, 233, 267, 300]),
    ],
)
def test_joined_streams_change_size_on_the_way(join, container, suffix, times, written, tmp_path):
    """Files joined by packets share one clock."""
    sizes = ((64, 96), (96, 128))
    parts = [written(SynthClip(container=container, size=size, num_frames=5)) for size in sizes]
    joined = join(parts, tmp_path / f"joined.{suffix}")
    assert numbers(joined) == [*range(5), *range(5)]
    frames = read_frames(joined)
    assert [frame.height for frame in frames] == [64] * 5 + [96] * 5
    assert times in (None, [frame.pts for frame in frames])


def test_packets_are_rewritten(clip, tmp_path):
    before = read_packets(clip)

    def swap(ordinal, payload):
        return [before[0].payload] if ordinal == 12 else [payload]

    after = read_packets(damage.rewrite_packets(clip, tmp_path / "swapped.mp4", swap))
    assert after[12].payload == before[0].payload
    assert [p.pts for p in after] == [p.pts for p in before]


def test_text_files_refer_to_other_files(tmp_path):
    playlist = damage.hls_text(tmp_path / "playlist.mp4", names=["http://example.invalid/a.ts"])
    assert playlist.read_text().startswith("#EXTM3U\n")
    assert "\nhttp://example.invalid/a.ts\n" in playlist.read_text()
    clip = write_clip(tmp_path / "clip", KINDS["h264_b_frames"])
    script = damage.ffconcat_text(tmp_path / "script.mp4", names=[clip.name])
    assert script.read_text() == "ffconcat version 1.0\nfile 'clip.mp4'\n"
    assert len(read_frames(script)) == 48


def indexed_keyframes(path):
    """Return the samples that the container's index marks as keyframes."""
    with av.open(str(path)) as container:
        entries = container.streams.video[0].index_entries
        return [place for place, entry in enumerate(entries) if entry.is_keyframe]


@pytest.mark.parametrize(
    ("lie", "expected"), [("every", list(range(48))), ("first", [0]), ("shifted", [0, 13, 25, 37])]
)
def test_the_index_has_false_keyframes(lie, expected, clip, tmp_path):
    assert indexed_keyframes(clip) == [0, 12, 24, 36]
    out = rewrite_mp4.lie_about_keyframes(clip, tmp_path / "lying.mp4", lie=lie)
    assert indexed_keyframes(out) == expected
    assert numbers(out) == list(range(48))


def test_an_edit_list_of_two_segments_skips_the_gap(clip, tmp_path):
    segments = [(Fraction(5, 30), Fraction(10, 30)), (Fraction(30, 30), Fraction(12, 30))]
    out = rewrite_mp4.split_edit_list(clip, tmp_path / "edited.mp4", segments=segments)
    assert numbers(out) == [*range(5, 15), *range(30, 42)]
    times = [frame.pts * frame.time_base for frame in read_frames(out)]
    assert times[:10] == [Fraction(place, 30) for place in range(10)]
    assert all(before < after for before, after in pairwise(times))
    assert len(read_packets(out)) > 22


def test_only_the_containers_dimensions_are_false(clip, tmp_path):
    lying = rewrite_mp4.lie_about_dimensions(clip, tmp_path / "lying.mp4")
    with av.open(str(lying)) as container:
        assert container.streams.video[0].codec_context.width == 128
    assert lying.read_bytes().count(b"\xff\xff\x00\x00" * 2) == 1
    assert numbers(lying) == list(range(48))


@pytest.mark.parametrize(
    ("codec", "container"),
    [
        *(("h264", "ts"), ("mpeg2video", "ts"), ("mpeg2video", "vob")),
        *(("mpeg2video", "mpg"), ("mpeg1video", "mpg")),
    ],
)
@pytest.mark.parametrize("rewrite", [rewrite_pes.hold_times, rewrite_pes.drop_times])
def test_only_the_times_change(rewrite, codec, container, written, tmp_path):
    path = written(SynthClip(codec=codec, container=container, b_frames=2))
    out = rewrite(path, tmp_path / f"rewritten.{container}")
    before, after = path.read_bytes(), out.read_bytes()
    assert len(before) == len(after)
    assert before != after
    assert all(same_pictures(path, out))
