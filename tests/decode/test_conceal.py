"""Frames behind damage are right, and what is shown of damaged ones is asked for and marked."""

from contextlib import closing
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from decode.linear import linear_frames
from headrace import FrameLoader, load_clip, read_clip, read_frames
from headrace.decode.index_store import IndexStore
from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.errors import ConfigError, DecodeError
from headrace.sampling.strategies import Permutation
from headrace.testing import damage
from headrace.testing.damage import damage_packets
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.stream_index import StreamIndex

CLIPS = {
    "h264": SynthClip(b_frames=2),
    "h264_open_gop": SynthClip(b_frames=2, open_gop=True),
    "mpeg4": SynthClip(codec="mpeg4", b_frames=2),
    "mpeg2": SynthClip(codec="mpeg2video", container="ts", b_frames=2),
    "vp9": SynthClip(codec="vp9", container="webm"),
}


@pytest.fixture(params=CLIPS)
def bad(request, tmp_path):
    """A clip of 48 frames with damage in its second GOP that FFmpeg reports."""
    good = write_clip(tmp_path / "good", CLIPS[request.param])
    for seed in range(40):
        path = damage.damage_packets(
            good, tmp_path / f"bad{good.suffix}", ordinals=[13, 15], seed=seed
        )
        if any(StreamIndex.scan(path, count_by="decode").problems):
            return path
    raise AssertionError("no damage that FFmpeg reports")


def test_what_ffmpeg_gives_there_comes_bit_for_bit(bad):
    index = StreamIndex.scan(bad)
    expected = linear_frames(bad)
    with closing(PyavDecoder(index)) as decoder:
        job = DecodeJob(tuple(range(len(index))), conceals=True)
        got = dict(decoder.run(job))
        concealed = decoder.concealed
    assert concealed
    assert sorted(got) == list(range(len(index)))
    if len(expected) == len(index):  # otherwise FFmpeg gives none for some
        assert [n for n in got if not np.array_equal(got[n], expected[n])] == []


def test_the_same_frames_are_concealed_as_are_named_otherwise(bad):
    index = StreamIndex.scan(bad)
    everything = tuple(range(len(index)))
    with closing(PyavDecoder(index)) as decoder:
        with pytest.raises(DecodeError) as caught:
            list(decoder.run(DecodeJob(everything)))
        assert decoder.concealed == frozenset()
        dict(decoder.run(DecodeJob(everything, conceals=True)))
        assert decoder.concealed == set(caught.value.missing)
        for number in caught.value.missing[:3]:
            assert [n for n, _ in decoder.run(DecodeJob((number,), conceals=True))] == [number]
            assert decoder.concealed == {number}
        list(decoder.run(DecodeJob((0,), conceals=True)))
        assert decoder.concealed == frozenset()


def test_a_frame_that_never_comes_shows_the_one_before(tmp_path):
    good = write_clip(tmp_path / "good", CLIPS["vp9"])
    junk = b"\x86\xff\xff\xff" * 4
    bad = damage.rewrite_packets(
        good, tmp_path / "bad.webm", lambda ordinal, payload: [junk if ordinal == 30 else payload]
    )
    index = StreamIndex.scan(bad, count_by="packets")
    with closing(PyavDecoder(index)) as decoder:
        got = dict(decoder.run(DecodeJob((29, 30), conceals=True)))
        assert decoder.concealed == {30}
    assert np.array_equal(got[29], got[30])


def test_what_is_shown_when_a_seek_leads_to_other_packets_is_the_same(tmp_path):
    good = write_clip(tmp_path / "good", SynthClip(codec="vp9", container="webm", num_frames=96))
    junk = b"\x86\xff\xff\xff" * 4
    bad = damage.rewrite_packets(
        good, tmp_path / "bad.webm", lambda ordinal, payload: [junk if ordinal == 80 else payload]
    )
    index = StreamIndex.scan(bad, count_by="packets")
    wanted = DecodeJob((79, 80, 81), conceals=True)
    with closing(PyavDecoder(index)) as decoder:
        expected = dict(decoder.run(wanted))
        concealed = decoder.concealed
    # The packet two behind the entry is not the one that reading in order has found there.
    signature = index.signature.copy()
    signature[int(index.gop_ordinal[index.gop_of(80)]) + 2] += 1 << 32
    with closing(PyavDecoder(replace(index, signature=signature))) as decoder:
        got = dict(decoder.run(wanted))
        assert 80 in decoder.concealed == concealed
        assert decoder.counters.packets_read > 96
    assert sorted(got) == [79, 80, 81]
    assert all(np.array_equal(got[number], expected[number]) for number in expected)


def test_readers_mark_what_is_concealed(bad):
    index = StreamIndex.scan(bad)
    batches = list(read_frames([bad], on_error="conceal"))
    numbers = np.concatenate([batch.index for batch in batches])
    marks = np.concatenate([batch.is_concealed for batch in batches])
    assert numbers.tolist() == list(range(len(index)))
    skipped = np.concatenate([batch.index for batch in read_frames([bad], on_error="skip")])
    assert sorted(numbers[~marks].tolist()) == skipped.tolist()
    assert 0 < marks.sum() < len(marks)


def test_clips_mark_what_is_concealed(bad):
    marked = load_clip(bad, 0, 48, 1, on_error="conceal")
    assert marked.is_concealed.any()
    assert not marked.is_concealed[:12].any()
    assert np.array_equal(read_clip(bad, 0, 48, 1, on_error="conceal"), marked.frames)
    with pytest.raises(ConfigError, match="raise, conceal, got 'skip'"):
        read_clip(bad, 0, 4, 1, on_error="skip")


def test_a_loader_marks_what_is_concealed(bad, tmp_path):
    options = {"batch_size": 8, "size": (32, 32), "store": IndexStore(tmp_path / "store")}
    with FrameLoader([bad], sampling=Permutation(), on_error="conceal", **options) as loader:
        batches = list(loader)
    assert sorted(n for batch in batches for n in batch.index.tolist()) == list(range(48))
    marked = {
        n
        for batch in batches
        for n, mark in zip(batch.index.tolist(), batch.is_concealed.tolist(), strict=True)
        if mark
    }
    expected = load_clip(bad, 0, 48, 1, on_error="conceal").is_concealed
    assert marked == set(np.flatnonzero(expected).tolist())


CAVLC = (("x264-params", "cabac=0"),)
COUNT = 24
CASES = {
    "before an IDR": (SynthClip(gop=4, encoder_options=CAVLC), (7, 15), (0, 8)),
    "before an IDR, B-frames": (SynthClip(gop=4, b_frames=2, encoder_options=CAVLC), (7, 11), (7,)),
    "one IDR after the other": (SynthClip(gop=1, encoder_options=CAVLC), (9, 10), (1, 5)),
    "no other refers to it": (SynthClip(gop=12, b_frames=2, encoder_options=CAVLC), (2, 15), (11,)),
    "transport stream": (SynthClip(gop=4, container="ts", encoder_options=CAVLC), (7, 15), (3, 12)),
}
"""The clip, packets that are damaged, and seeds with which FFmpeg reports each of them."""
JOBS = {
    "one job": [range(COUNT)],
    "single frames": [[n] for n in range(COUNT)],
    "in random order": [[n] for n in Random(1).sample(range(COUNT), COUNT)],
    "far pairs": [sorted({n, (n + 5) % COUNT}) for n in Random(2).sample(range(COUNT), COUNT)],
}


def run(index: StreamIndex, jobs) -> tuple[dict[int, np.ndarray], set[int]]:
    """Return what comes by jobs on one decoder, and what they name as missing."""
    came: dict[int, np.ndarray] = {}
    lost: set[int] = set()
    with closing(PyavDecoder(index)) as decoder:
        for wanted in jobs:
            try:
                for number, frame in decoder.run(DecodeJob(tuple(wanted))):
                    came[number] = frame
            except DecodeError as error:
                lost |= set(error.missing)
    return came, lost


@pytest.mark.parametrize("count_by", ["packets", "decode"])
@pytest.mark.parametrize("case", CASES)
def test_frames_behind_damage_are_those_that_were_encoded(case, count_by, tmp_path):
    """Every way names the same frames, and gives the others as they are in the undamaged clip."""
    clip, ordinals, seeds = CASES[case]
    good = write_clip(tmp_path / "good", replace(clip, num_frames=COUNT, size=(48, 64)))
    expected = linear_frames(good)
    for seed in seeds:
        bad = tmp_path / f"bad{seed}{good.suffix}"
        damage_packets(good, bad, ordinals=ordinals, seed=seed)
        named = set()
        for way, jobs in JOBS.items():
            came, lost = run(StreamIndex.scan(bad, count_by=count_by), jobs)
            named.add(frozenset(lost))
            assert sorted([*came, *lost]) == list(range(COUNT))
            wrong = [n for n, frame in came.items() if not np.array_equal(frame, expected[n])]
            assert wrong == [], (way, seed)
        assert len(named) == 1
        assert named != {frozenset()}
