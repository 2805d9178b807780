"""A job is read to its end; what came and what was lost are part of what is returned."""

from contextlib import closing

import numpy as np
import pytest

from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.decode.reading import read, read_whole
from headrace.errors import DecodeError, OpenError
from headrace.testing import damage
from headrace.testing.synth import SynthClip, read_number, write_clip
from headrace.video.stream_index import StreamIndex


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
