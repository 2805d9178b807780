"""The right frame, every time: whatever the way to a frame, it equals that of a linear decode."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decode.linear import linear_frames
from headrace.decode.parity import check_parity
from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, read_number, write_clip
from headrace.video.shape import Crop, FrameShape
from headrace.video.stream_index import StreamIndex
from media import real_clip, real_clips

FULL = FrameShape()
SMALL = FrameShape(size=(32, 48), crop=Crop(top=2, left=4, height=40, width=46))


@pytest.fixture(scope="module")
def linear():
    """Return a function: clip and shape -> its index and every frame by plain linear decode."""
    shapes: dict[tuple[Path, FrameShape], tuple[StreamIndex, list]] = {}

    def read(path: Path, shape: FrameShape = FULL) -> tuple[StreamIndex, list]:
        if (path, shape) not in shapes:
            shapes[path, shape] = StreamIndex.scan(path), linear_frames(path, shape)
        return shapes[path, shape]

    return read


def differing(index, expected, shape, jobs, *, goes_on=True) -> list[int]:
    """Run jobs on one decoder; return the frames that come out wrong, missing or out of order."""
    wrong: list[int] = []
    with closing(PyavDecoder(index, shape)) as decoder:
        for wanted in jobs:
            got = list(decoder.run(DecodeJob(tuple(wanted), goes_on=goes_on)))
            wrong += [n for n, frame in got if not np.array_equal(frame, expected[n])]
            if [n for n, _ in got] != list(wanted):
                wrong += wanted
    return wrong


def scattered(index, count: int) -> list[list[int]]:
    """Jobs of one frame each, in random order."""
    return [[k] for k in random.Random(0).sample(range(len(index)), min(count, len(index)))]


@pytest.mark.parametrize("kind", KINDS)
def test_every_synthetic_frame_reached_at_random_equals_linear_decode(written, linear, kind):
    index, expected = linear(written(kind))
    assert len(index) == len(expected) == KINDS[kind].num_frames
    assert differing(index, expected, FULL, scattered(index, 60)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_frames_shaped_while_converting_equal_linear_decode(written, linear, kind):
    index, expected = linear(written(kind), SMALL)
    assert differing(index, expected, SMALL, scattered(index, 16)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_frames_carry_the_number_of_their_index(written, linear, kind):
    index, expected = linear(written(kind))
    assert [read_number(frame) for frame in expected] == list(range(len(index)))
    assert differing(index, expected, FULL, [range(len(index))]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_nothing_follows_brings_the_same_frames(written, linear, kind):
    index, expected = linear(written(kind))
    jobs = [*scattered(index, 30), range(len(index)), *scattered(index, 8)]
    assert differing(index, expected, FULL, jobs, goes_on=False) == []


@pytest.mark.parametrize("path", real_clips())
def test_a_real_job_that_nothing_follows_brings_the_same_frames(path, linear):
    index, expected = linear(path)
    assert differing(index, expected, FULL, scattered(index, 12), goes_on=False) == []


@pytest.mark.parametrize("path", real_clips())
def test_every_real_frame_equals_linear_decode(path, linear):
    """All of them in one job, then some reached at random."""
    shape = FrameShape(size=(96, 96))
    index, expected = linear(path, shape)
    assert len(index) == len(expected)
    assert differing(index, expected, shape, [range(len(index)), *scattered(index, 40)]) == []


@pytest.mark.parametrize("path", real_clips())
def test_real_frames_at_full_size_equal_linear_decode(path):
    index = StreamIndex.scan(path)
    jobs = scattered(index, 6)
    with closing(PyavDecoder(index)) as decoder:
        got = {n: f for job in jobs for n, f in decoder.run(DecodeJob(tuple(job)))}
    for number, frame in enumerate(linear_frames(path)):
        assert number not in got or np.array_equal(got[number], frame)
    assert set(got) == {k for [k] in jobs}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_sequence_of_jobs_equals_linear_decode(written, linear, data):
    """Jobs in any order on one decoder: whether it seeks or reads on, the frames are the same."""
    index, expected = linear(written(data.draw(st.sampled_from(sorted(KINDS)))))
    frame = st.integers(0, len(index) - 1)
    jobs = data.draw(st.lists(st.sets(frame, min_size=1, max_size=8), min_size=1, max_size=6))
    assert differing(index, expected, FULL, [sorted(job) for job in jobs]) == []


@pytest.mark.parametrize("kind", ["h264", "h264_10_bit", "rotated_90", "odd_size"])
@pytest.mark.parametrize(("top", "left"), [(2, 4), (3, 5), (0, 1), (7, 0)])
def test_a_crop_is_that_of_the_whole_frame(written, linear, kind, top, left):
    index, whole = linear(written(kind))
    crop = Crop(top=top, left=left, height=33, width=41)
    with closing(PyavDecoder(index, FrameShape(crop=crop))) as decoder:
        [(_, frame)] = decoder.run(DecodeJob((7,)))
    assert np.array_equal(frame, whole[7][top : top + 33, left : left + 41])


def test_frames_of_a_real_clip_are_equal():
    [found] = check_parity(real_clip("pliers/shot_change.mp4"), num_frames=12)
    assert (found.backend, found.frames, found.compared) == ("pyav", 148, 12)
    assert (found.mismatches, found.undecodable) == ((), ())


class OffByOne(PyavDecoder):
    """Delivers the neighbour of every frame that is asked for alone."""

    def run(self, job: DecodeJob, out=None) -> Iterator[tuple[int, np.ndarray]]:
        if len(job.wanted) > 1:
            yield from super().run(job, out)
        else:
            [wanted] = job.wanted
            other = min(wanted + 1, len(self.index) - 1)
            yield from ((wanted, f) for _, f in super().run(DecodeJob((other,)), out))


def test_a_backend_that_delivers_the_neighbour_is_caught(tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["h264_b_frames"])
    [found] = check_parity(path, num_frames=9, open_backend=lambda i, _: OffByOne(i))
    assert len(found.mismatches) >= found.compared - 1 > 5


def test_frames_that_cannot_be_decoded_are_listed_apart(tmp_path):
    good = write_clip(tmp_path / "good", SynthClip())
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[24])
    [found] = check_parity(bad, num_frames=200)
    assert found.mismatches == ()
    assert set(found.undecodable) >= set(range(24, 36))


@pytest.mark.parametrize("b_frames", [0, 2])
def test_frames_of_a_file_whose_clock_starts_again_are_equal(b_frames, tmp_path):
    part = write_clip(tmp_path / "part", SynthClip(container="ts", b_frames=b_frames))
    [found] = check_parity(damage.concatenate([part] * 3, tmp_path / "joined.ts"), num_frames=400)
    assert (found.compared, found.mismatches, found.refused) == (144, (), ())
