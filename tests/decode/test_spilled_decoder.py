"""Frames from a disk and decoded ones: same frames, order and errors as the decoder's."""

import re
from contextlib import closing
from itertools import product

import numpy as np
import pytest

from headrace import ConfigError, DecodeError, DecodeJob, FrameFormat, StreamIndex, open_decoder
from headrace.cache.spill_store import SpillStore
from headrace.decode.decoder_config import ON_CPU
from headrace.decode.frame_outputs import StackedOutput
from headrace.decode.spilled_decoder import spill_key, spilled
from headrace.testing.damage import damage_packets
from headrace.testing.synth import SynthClip

NUM_FRAMES = 40
CLIP = SynthClip(num_frames=NUM_FRAMES, size=(64, 96), gop=8, b_frames=2)
SHAPE = FrameFormat(size=(32, 48))
SHAPES = {
    "resized": SHAPE,
    "own size": FrameFormat(),
    "tiny": FrameFormat(size=(8, 12)),
    "16 bits": FrameFormat(size=(32, 48), dtype="uint16"),
    "planes": FrameFormat(size=(32, 48), layout="yuv420"),
}
STORED = {
    "none": [],
    "all": range(NUM_FRAMES),
    "every second": range(0, NUM_FRAMES, 2),
    "the begin": range(13),
    "the end": range(21, NUM_FRAMES),
    "a GOP": range(8, 16),
}
JOBS = [
    DecodeJob(tuple(range(NUM_FRAMES)), goes_on=False),
    DecodeJob((3, 4, 9, 10, 15, 22)),
    DecodeJob((5,), following=7),
    DecodeJob((7, 8), goes_on=False),
    DecodeJob(tuple(range(18, 30)), conceals=True),
]


@pytest.fixture(scope="module")
def index(scanned):
    return scanned(CLIP)


@pytest.fixture(scope="module")
def damaged(written, tmp_path_factory):
    """A video with two damaged GOPs."""
    out = tmp_path_factory.mktemp("spilled") / "damaged.mp4"
    return StreamIndex.scan(damage_packets(written(CLIP), out, ordinals=[20, 21, 22, 30]))


@pytest.fixture
def store(tmp_path):
    with SpillStore.open(tmp_path / "spill", budget=64 << 20) as store:
        yield store


def _with_some(index, shape, store, frames):
    """Return a decoder of a video with some frames on the disk."""
    if frames:
        with closing(spilled(open_decoder(index, shape), store, ON_CPU)) as writer:
            for frame in frames:
                [*writer.run(DecodeJob((frame,)))]
    return closing(spilled(open_decoder(index, shape), store, ON_CPU))


def _delivered(decoder, jobs, out_of=lambda job: None):
    """Return frames, concealed indices and errors of all jobs."""
    found = []
    for job in jobs:
        try:
            for frame, pixels in decoder.run(job, out_of(job)):
                found.append((frame, frame in decoder.concealed, pixels.shape, pixels.tobytes()))
        except DecodeError as error:
            found.append((error.missing, error.source))
        found.append(decoder.concealed)
    return found


def _apart(job):
    """Return memory with gaps between rows."""
    return np.zeros((len(job.wanted), 32, 60, 3), np.uint8)[:, :, 6:54]


@pytest.mark.parametrize(
    ("shape", "stored"),
    [*product(["resized"], STORED), *product([*SHAPES][1:], ["every second"])],
)
def test_frames_and_order_equal_the_decoders(index, store, shape, stored):
    with closing(open_decoder(index, SHAPES[shape])) as plain:
        expected = _delivered(plain, JOBS)
    with _with_some(index, SHAPES[shape], store, STORED[stored]) as decoder:
        assert _delivered(decoder, JOBS) == expected
        assert decoder.counters.frames_delivered == sum(len(job.wanted) for job in JOBS)
        if stored == "all":
            assert decoder.counters.frames_decoded == 0
        # All frames of the first job are on the disk now.
        before = decoder.counters.frames_decoded
        assert _delivered(decoder, JOBS) == expected
        assert decoder.counters.frames_decoded == before


@pytest.mark.parametrize("stored", ["none", "all", "every second"])
@pytest.mark.parametrize(
    "memory",
    [
        lambda job: np.zeros((len(job.wanted), 32, 48, 3), np.uint8),
        lambda job: [np.zeros((32, 48, 3), np.uint8) for _ in job.wanted],
        lambda job: StackedOutput(len(job.wanted)),
        _apart,
    ],
    ids=["array", "list", "stack", "rows with gaps"],
)
def test_frames_are_written_to_the_given_memory(index, store, memory, stored):
    with closing(open_decoder(index, SHAPE)) as plain:
        [*right] = (pixels for _, pixels in plain.run(JOBS[0]))
    with _with_some(index, SHAPE, store, STORED[stored]) as decoder:
        out = memory(JOBS[0])
        assert [frame for frame, _ in decoder.run(JOBS[0], out)] == [*JOBS[0].wanted]
        frames = out.frames if isinstance(out, StackedOutput) else out
        assert np.array_equal(np.stack(frames), right)


@pytest.mark.parametrize("conceals", [False, True])
@pytest.mark.parametrize("stored", STORED)
def test_damaged_frames_are_never_stored(damaged, store, stored, conceals):
    job = DecodeJob(tuple(range(NUM_FRAMES)), conceals=conceals)
    with closing(open_decoder(damaged, SHAPE)) as plain:
        [*good, expected] = _delivered(plain, [job])
    bad = set(range(NUM_FRAMES)) - {frame[0] for frame in good if len(frame) == 4 and not frame[1]}
    assert bad
    with _with_some(damaged, SHAPE, store, sorted({*STORED[stored]} - bad)) as decoder:
        found = _delivered(decoder, [job])
    assert sorted(found[:-1], key=str) == sorted(good, key=str)
    assert found[-1] == expected
    is_stored = store.stored(spill_key(damaged, SHAPE, ON_CPU), NUM_FRAMES)
    assert set(np.flatnonzero(~is_stored).tolist()) == bad


def test_frames_of_another_size_than_the_first_are_decoded(scanned, store):
    index = scanned("h264_two_sizes_mkv")
    job = DecodeJob(tuple(range(len(index))))
    outs = {"frames": lambda job: None, "stack": lambda job: StackedOutput(len(job.wanted))}
    for name, out in outs.items():
        with closing(open_decoder(index, FrameFormat())) as plain:
            expected = _delivered(plain, [job], out)
        for _ in range(2):
            with _with_some(index, FrameFormat(), store, []) as decoder:
                assert _delivered(decoder, [job], out) == expected, name
    assert 0 < store.stored(spill_key(index, FrameFormat(), ON_CPU), len(index)).sum() < len(index)


@pytest.mark.parametrize(
    ("memory", "error"),
    [
        (np.zeros((4, 20, 48, 3), np.uint8), DecodeError),
        (np.zeros((4, 32, 48, 3), np.uint16), ConfigError),
    ],
    ids=["size", "dtype"],
)
def test_memory_of_wrong_shape_raises_the_decoders_error(index, store, memory, error):
    job = DecodeJob((0, 1, 2, 3))
    with closing(open_decoder(index, SHAPE)) as plain, pytest.raises(error) as refused:
        [*plain.run(job, memory)]
    same = pytest.raises(error, match=re.escape(str(refused.value)[:40]))
    with _with_some(index, SHAPE, store, [0, 1, 2, 3]) as decoder, same:
        [*decoder.run(job, memory)]


def test_an_invalid_stored_packet_is_decoded_again(index, store):
    with closing(open_decoder(index, SHAPE)) as plain:
        expected = _delivered(plain, JOBS)
    store.write(spill_key(index, SHAPE, ON_CPU), dict.fromkeys(range(0, 40, 3), b"no packet"))
    with _with_some(index, SHAPE, store, []) as decoder:
        assert _delivered(decoder, JOBS) == expected


def test_decoded_frames_are_stored_if_the_caller_stops_early(index, store):
    with _with_some(index, SHAPE, store, []) as decoder:
        frames = decoder.run(JOBS[0])
        for _ in range(5):
            next(frames)
        frames.close()
    assert store.stored(spill_key(index, SHAPE, ON_CPU), NUM_FRAMES).sum() == 5
