"""The right frame, every time: whatever the way to a frame, it equals that of a linear decode."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decode.linear import linear_frames
from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.testing.synth import KINDS, read_number, write_clip
from headrace.video.shape import Crop, FrameShape
from headrace.video.stream_index import StreamIndex
from media import real_clips

SMALL = FrameShape(size=(32, 48), crop=Crop(top=2, left=4, height=40, width=46))


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """Return a function: name of a kind -> path of its clip, written once."""
    folder = tmp_path_factory.mktemp("kinds")
    written: dict[str, Path] = {}

    def path_of(kind: str) -> Path:
        if kind not in written:
            written[kind] = write_clip(folder / kind, KINDS[kind])
        return written[kind]

    return path_of


def assert_random_access_equals_linear(path: Path, shape: FrameShape | None, count: int) -> None:
    index, expected = StreamIndex.scan(path), linear_frames(path, shape)
    assert len(index) == len(expected)
    order = random.Random(0).sample(range(len(index)), min(count, len(index)))
    decoder = PyavDecoder(index, shape)
    try:
        for wanted in order:
            [(number, frame)] = decoder.run(DecodeJob((wanted,)))
            assert number == wanted
            assert np.array_equal(frame, expected[wanted]), f"frame {wanted} differs"
    finally:
        decoder.close()


@pytest.mark.parametrize("kind", KINDS)
def test_every_synthetic_frame_reached_at_random_equals_linear_decode(synthetic, kind):
    assert_random_access_equals_linear(synthetic(kind), None, count=300)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_shaped_while_converting_equal_linear_decode(synthetic, kind):
    assert_random_access_equals_linear(synthetic(kind), SMALL, count=40)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_carry_the_number_of_their_index(synthetic, kind):
    index = StreamIndex.scan(synthetic(kind))
    decoder = PyavDecoder(index)
    try:
        frames = dict(decoder.run(DecodeJob(tuple(range(len(index))))))
    finally:
        decoder.close()
    assert [read_number(frames[k]) for k in range(len(index))] == list(range(len(index)))
    assert len(index) == KINDS[kind].num_frames


@pytest.mark.parametrize("path", real_clips())
def test_real_frames_reached_at_random_equal_linear_decode(path):
    assert_random_access_equals_linear(path, FrameShape(size=(96, 96)), count=1000)


@pytest.mark.parametrize("path", real_clips())
def test_real_frames_at_full_size_equal_linear_decode(path):
    assert_random_access_equals_linear(path, None, count=12)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_sequence_of_jobs_equals_linear_decode(synthetic, data):
    """Jobs in any order on one decoder: whether it seeks or reads on, the frames are the same."""
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    path = synthetic(kind)
    index, expected = StreamIndex.scan(path), linear_frames(path)
    frame = st.integers(0, len(index) - 1)
    jobs = data.draw(st.lists(st.sets(frame, min_size=1, max_size=8), min_size=1, max_size=6))
    decoder = PyavDecoder(index)
    try:
        for wanted in (tuple(sorted(job)) for job in jobs):
            got = list(decoder.run(DecodeJob(wanted)))
            assert tuple(number for number, _ in got) == wanted
            assert all(np.array_equal(pixels, expected[number]) for number, pixels in got)
    finally:
        decoder.close()
