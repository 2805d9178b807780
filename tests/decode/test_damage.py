"""Damage: delivered frames are right; others are listed, or concealed on request."""

from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest

from decode.kit import decoded, reported_damage, run, with_junk
from decode.linear import linear_frames
from headrace import DecodeError, FrameLoader, ShuffledFrames, StreamIndex, load_clip, read_clip
from headrace.decode.converter import ArrayConverter
from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.testing import damage
from headrace.testing.synth import SynthClip
from media import read_packets

CLIPS = {
    "h264": SynthClip(b_frames=2),
    "h264_open_gop": SynthClip(b_frames=2, open_gop=True),
    "hevc": SynthClip(codec="hevc", b_frames=3, structure="b_pyramid"),
    "vp9": SynthClip(codec="vp9", container="webm", gop=12),
    "mpeg2": SynthClip(codec="mpeg2video", container="ts", b_frames=2),
    "mpeg4": SynthClip(codec="mpeg4", b_frames=2),
    "mpeg4_open_gop": SynthClip(codec="mpeg4", b_frames=2, open_gop=True),
    "mpeg4_short_gop": SynthClip(codec="mpeg4", b_frames=2, open_gop=True, gop=5, size=(64, 96)),
}


PLACES = {"keyframe": [24], "after a keyframe": [25], "middle": [17, 18], "start": [0], "end": [47]}


@pytest.fixture(scope="module", params=[(c, p) for c in CLIPS for p in PLACES], ids=str)
def damaged(request, written, tmp_path_factory) -> tuple[Path, Path]:
    """(undamaged clip, clip with damaged packets)."""
    codec, place = request.param
    good = written(CLIPS[codec])
    bad = tmp_path_factory.mktemp("damaged") / f"bad{good.suffix}"
    return good, damage.damage_packets(good, bad, ordinals=PLACES[place])


def test_frames_far_from_damage_equal_those_of_the_undamaged_clip(damaged):
    """Before the damage and from the next keyframe on, no frame is lost or changed."""
    good, bad = damaged
    index, expected = StreamIndex.scan(good), linear_frames(good)
    with closing(PyavDecoder(StreamIndex.scan(bad, count_by="packets"))) as decoder:
        got, missing = run(decoder, range(len(index)))
        again, missing_again = run(decoder, range(len(index)))
    assert sorted([*got, *missing]) == list(range(len(index)))
    assert sorted(got) == list(got), "frames are out of order"
    assert (set(again), missing_again) == (set(got), missing)
    assert len(missing) <= 2 * 12 + 3
    changed = [n for n, frame in got.items() if not np.array_equal(frame, expected[n])]
    assert len(changed) <= 12, "damage that no decoder can detect stays inside its GOP"


def test_a_frame_is_delivered_by_every_job_or_by_none(damaged):
    """Alone, with neighbours, with its GOP; with and without a following job.

    In the damaged GOP and its neighbours.
    """
    good, bad = damaged
    index, packets = StreamIndex.scan(bad), zip(read_packets(good), read_packets(bad), strict=True)
    hit = [index.gop_of_packet(n) for n, (a, b) in enumerate(packets) if a.payload != b.payload]
    found: dict[int, set[bool]] = {}
    for gop in range(max(0, min(hit) - 1), min(index.num_gops, max(hit) + 2)):
        inside = range(*index.gop_range(gop))
        jobs = [*([n] for n in inside), *(inside[k : k + 3] for k in range(len(inside))), inside]
        for wanted, goes_on in product(jobs, (True, False)):
            got, *_ = decoded(index, wanted, goes_on=goes_on)
            for n in wanted:
                found.setdefault(n, set()).add(n in got)
    assert {n: len(there) for n, there in found.items() if len(there) > 1} == {}


UNSEEN = [[17, 18], [24], [25], [36]]
"""Packets whose damage FFmpeg's HEVC decoder may not report."""


@pytest.mark.parametrize("ordinals", [*([n] for n in (0, 1, 4, 7, 11, 13, 30)), *UNSEEN], ids=str)
@pytest.mark.parametrize("codec", CLIPS)
def test_jobs_do_not_change_the_delivered_frames(codec, ordinals, written, tmp_path):
    """Across GOPs, in one job or in several continuing ones, from the start or later.

    The HEVC decoder may end a damaged picture early and leave old memory in the rest: this needs an
    index built by decoding.
    """
    good = written(replace(CLIPS[codec], num_frames=37))
    bad = damage.damage_packets(good, tmp_path / f"bad{good.suffix}", ordinals=ordinals)
    is_unseen = codec == "hevc" and ordinals in UNSEEN
    index = StreamIndex.scan(bad, count_by="decode" if is_unseen else "packets")
    whole: dict[int, np.ndarray] = {}
    for first, length in [(0, 37), (0, 1), (0, 3), (0, 16), (13, 6)]:
        jobs = [range(k, min(37, k + length)) for k in range(first, 37, length)]
        with closing(PyavDecoder(index)) as decoder:
            got = {n: frame for job in jobs for n, frame in run(decoder, job)[0].items()}
        whole = whole or got
        assert set(got) == {n for n in whole if n >= first}
        assert all(np.array_equal(frame, whole[n]) for n, frame in got.items())


def test_damage_is_detected_from_any_start(written, tmp_path):
    """FFmpeg guesses bugs of MPEG-4 encoders from decoded frames, and then tolerates more."""
    clip = SynthClip(codec="mpeg4", num_frames=9, size=(64, 96), gop=5, b_frames=2)
    bad = damage.damage_packets(written(clip), tmp_path / "bad.mp4", ordinals=[5])
    for first in (0, 4):
        assert decoded(StreamIndex.scan(bad), range(first, 9))[1] == (5, 6, 7, 8)


def test_a_damaged_frame_is_named_with_source_and_time(written, tmp_path):
    bad = damage.damage_packets(written(SynthClip()), tmp_path / "bad.mp4", ordinals=[30])
    with closing(PyavDecoder(StreamIndex.scan(bad))) as decoder:
        assert [n for n, _ in decoder.run(DecodeJob((28, 29)))] == [28, 29]
        with pytest.raises(DecodeError) as caught:
            list(decoder.run(DecodeJob((29, 30, 31, 36))))
        error, index = caught.value, decoder.index
        assert (error.missing, error.source) == ((30, 31), str(bad))
        assert error.pts == index.pts[30]
        assert str(caught.value) == (
            f"frame 30 of {bad} cannot be decoded (at 1.000 s), nor 1 more of the requested "
            "frames: the file is damaged there; on_error='skip' (--on-error skip) leaves such "
            "frames out, 'conceal' keeps them as FFmpeg repairs them; or copy the file again"
        )
        assert [n for n, _ in decoder.run(DecodeJob((40,)))] == [40]


@pytest.mark.parametrize(("change", "is_gone"), [("damage_packets", 0), ("drop_packets", 1)])
def test_damage_of_a_disposable_frame_loses_only_that_frame(written, tmp_path, change, is_gone):
    """Frames of missing packets do not exist."""
    good = written(SynthClip(b_frames=2))
    index = StreamIndex.scan(good)
    victim = int(np.flatnonzero(index.is_disposable)[10])
    ordinals = [int(index.packet_index[victim])]
    bad = getattr(damage, change)(good, tmp_path / "bad.mp4", ordinals=ordinals)
    expected = linear_frames(good)
    if is_gone:
        del expected[victim]
    got, missing, _ = decoded(StreamIndex.scan(bad), range(len(index) - is_gone))
    assert missing == (() if is_gone else (victim,))
    assert all(np.array_equal(frame, expected[n]) for n, frame in got.items())


def test_a_truncated_file_delivers_its_complete_frames(written, tmp_path):
    good = written(SynthClip(b_frames=2))
    cut = damage.truncate(good, tmp_path / "cut.mp4", keep_fraction=0.6)
    whole, index = StreamIndex.scan(good), StreamIndex.scan(cut)
    expected = linear_frames(good)
    got, missing, _ = decoded(index)
    assert len(got) > 10
    assert len(missing) <= 4
    # Frames are matched by time: at the end of the file, some before the last are missing.
    same = {n: whole.index_at(int(index.pts[n])) for n in got}
    assert all(np.array_equal(frame, expected[same[n]]) for n, frame in got.items())


@pytest.mark.parametrize("refused", [(0,), (5, 20), (47,)])
def test_unconvertible_frames_are_listed_and_others_delivered(refused, scanned, monkeypatch):
    index = scanned(CLIPS["h264"])
    wanted = [0, 3, 5, 20, 21, 47]
    convert = ArrayConverter.convert

    def some(self, frame, out):
        if frame.pts in index.pts[list(refused)]:
            raise DecodeError("cannot be converted", source="clip", pts=frame.pts)
        return convert(self, frame, out)

    monkeypatch.setattr(ArrayConverter, "convert", some)
    with closing(PyavDecoder(index)) as decoder:
        with pytest.raises(DecodeError, match="cannot be converted") as caught:
            list(decoder.run(DecodeJob(tuple(wanted))))
        assert caught.value.pts == index.pts[refused[0]]
        got, missing = run(decoder, wanted)
    assert missing == refused
    assert list(got) == [each for each in wanted if each not in refused]


def test_threads_report_the_same_damage(written, tmp_path):
    """A thread accepts damage that another thread finds meanwhile."""
    good = written(CLIPS["h264_open_gop"])
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[13, 15, 30])
    index = StreamIndex.scan(bad, count_by="packets")
    _, expected, _ = decoded(index)
    assert expected
    fresh = StreamIndex.scan(bad, count_by="packets")
    with closing(PyavDecoder(fresh)) as first, closing(PyavDecoder(fresh)) as second:
        ways = first._attempts(expected[0])
        next(ways)
        _, missing = run(second, range(len(index)))
        first._attempts = lambda number: ways if number == expected[0] else iter(())
        _, alone = run(first, expected[:1])
    assert missing == expected
    assert alone == expected[:1]


@pytest.fixture(scope="module", params=["h264", "h264_open_gop", "mpeg4", "mpeg2", "vp9"])
def bad(request, written, tmp_path_factory):
    """A clip of 48 frames with damage in its second GOP that FFmpeg reports."""
    return reported_damage(written(CLIPS[request.param]), tmp_path_factory.mktemp("bad"))


def test_concealed_frames_equal_ffmpegs(bad):
    index = StreamIndex.scan(bad)
    expected = linear_frames(bad)
    got, missing, concealed = decoded(index, conceals=True)
    assert (bool(concealed), missing) == (True, ())
    assert sorted(got) == list(range(len(index)))
    if len(expected) == len(index):  # otherwise FFmpeg outputs no frame for some
        assert [n for n in got if not np.array_equal(got[n], expected[n])] == []


def test_concealed_frames_are_the_frames_that_raise_otherwise(bad):
    everything = range(len(StreamIndex.scan(bad)))
    with closing(PyavDecoder(StreamIndex.scan(bad))) as decoder:
        _, missing = run(decoder, everything)
        assert missing
        assert decoder.concealed == frozenset()
        run(decoder, everything, conceals=True)
        assert decoder.concealed == set(missing)
        for number in missing[:3]:
            assert [*run(decoder, [number], conceals=True)[0]] == [number]
            assert decoder.concealed == {number}
        run(decoder, [0], conceals=True)
        assert decoder.concealed == frozenset()


def test_a_frame_without_output_repeats_the_one_before(written, tmp_path):
    index = with_junk(written(CLIPS["vp9"]), tmp_path, at=30)
    got, _, concealed = decoded(index, (29, 30), conceals=True)
    assert concealed == {30}
    assert np.array_equal(got[29], got[30])


def test_concealment_is_the_same_after_a_wrong_seek(written, tmp_path):
    clip = SynthClip(codec="vp9", container="webm", num_frames=96)
    index = with_junk(written(clip), tmp_path, at=80)
    expected, _, concealed = decoded(index, (79, 80, 81), conceals=True)
    # The second packet after the entry differs from the one of the linear read.
    signature = index.signature.copy()
    signature[int(index.gop_packet[index.gop_of(80)]) + 2] += 1 << 32
    with closing(PyavDecoder(replace(index, signature=signature))) as decoder:
        got, _ = run(decoder, (79, 80, 81), conceals=True)
        assert 80 in decoder.concealed == concealed
        assert decoder.counters.packets_read > 96
    assert sorted(got) == [79, 80, 81]
    assert all(np.array_equal(got[number], expected[number]) for number in expected)


def test_clips_and_loaders_mark_concealed_frames(bad, store):
    clip = load_clip(bad, 0, 48, 1, on_error="conceal")
    assert clip.is_concealed.any()
    assert not clip.is_concealed[:12].any()
    assert np.array_equal(read_clip(bad, 0, 48, 1, on_error="conceal"), clip.frames)
    options = {"batch_size": 8, "size": (32, 32), "index_store": store}
    marks = {}
    with FrameLoader([bad], sampling=ShuffledFrames(), on_error="conceal", **options) as loader:
        for batch in loader:
            marks |= zip(batch.index.tolist(), batch.is_concealed.tolist(), strict=True)
    assert marks == dict(enumerate(clip.is_concealed.tolist()))


CAVLC = (("x264-params", "cabac=0"),)


COUNT = 24


CASES = {
    "before an IDR": (SynthClip(gop=4, encoder_options=CAVLC), (7, 15), (0, 8)),
    "before an IDR, B-frames": (SynthClip(gop=4, b_frames=2, encoder_options=CAVLC), (7, 11), (7,)),
    "one IDR after the other": (SynthClip(gop=1, encoder_options=CAVLC), (9, 10), (1, 5)),
    "no other refers to it": (SynthClip(gop=12, b_frames=2, encoder_options=CAVLC), (2, 15), (11,)),
    "transport stream": (SynthClip(gop=4, container="ts", encoder_options=CAVLC), (7, 15), (3, 12)),
}
"""Clip, damaged packets, and seeds with which FFmpeg reports all of them."""


JOBS = {
    "one job": [range(COUNT)],
    "single frames": [[n] for n in range(COUNT)],
    "in random order": [[n] for n in Random(1).sample(range(COUNT), COUNT)],
    "far pairs": [sorted({n, (n + 5) % COUNT}) for n in Random(2).sample(range(COUNT), COUNT)],
}


@pytest.mark.parametrize("count_by", ["packets", "decode"])
@pytest.mark.parametrize("case", CASES)
def test_frames_after_damage_equal_the_encoded_ones(case, count_by, written, tmp_path):
    """All jobs list the same frames, and deliver the others as in the undamaged clip."""
    clip, packet_indices, seeds = CASES[case]
    good = written(replace(clip, num_frames=COUNT, size=(48, 64)))
    expected = linear_frames(good)
    for seed in seeds:
        bad = tmp_path / f"bad{seed}{good.suffix}"
        damage.damage_packets(good, bad, ordinals=packet_indices, seed=seed)
        named = set()
        for way, jobs in JOBS.items():
            with closing(PyavDecoder(StreamIndex.scan(bad, count_by=count_by))) as decoder:
                done = [run(decoder, wanted) for wanted in jobs]
            came = {n: frame for frames, _ in done for n, frame in frames.items()}
            lost = {n for _, missing in done for n in missing}
            named.add(frozenset(lost))
            assert sorted([*came, *lost]) == list(range(COUNT))
            wrong = [n for n, frame in came.items() if not np.array_equal(frame, expected[n])]
            assert wrong == [], (way, seed)
        assert len(named) == 1
        assert named != {frozenset()}
