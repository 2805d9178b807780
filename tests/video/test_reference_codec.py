"""Frames with lost references count as damaged with FFmpeg 7 too, which only logs them."""

from typing import NamedTuple

import av.logging
import pytest

from headrace import Source, StreamIndex
from headrace.testing.damage import drop_packets
from headrace.testing.synth import SynthClip
from headrace.video import reference_codec
from headrace.video.codec import FfmpegCodec, prepare
from headrace.video.container import open_container
from headrace.video.reference_codec import LossReportingCodec, ffmpeg_codec

OPEN = SynthClip(codec="hevc", num_frames=48, gop=12, b_frames=3, structure="b_pyramid")


class Frame(NamedTuple):
    """The attributes of a frame that a codec reads."""

    opaque: tuple[int]
    key_frame: bool
    is_corrupt: bool = False


class Played:
    """A codec context with given outputs and log messages per packet."""

    def __init__(self, context, shown, lost):
        self.codec, self.extradata = context.codec, context.extradata
        self.shown, self.lost = shown, lost

    def decode(self, packet):
        number = packet.opaque[0]
        if number in self.lost:
            av.logging.log(av.logging.ERROR, "hevc", "Could not find ref with POC 23\n")
        return [Frame((place,), place % 12 == 0) for place in self.shown.get(number, ())]

    def flush_buffers(self):
        pass


@pytest.fixture
def logs_nothing():
    """Restore PyAV's default log settings."""
    yield
    av.logging.set_level(None)
    av.logging.set_skip_repeated(True)


@pytest.fixture
def packets(written):
    container, stream = open_container(Source(written(OPEN)))
    with container:
        yield stream.codec_context, [p for p in container.demux(stream) if p.size]


@pytest.fixture
def played(packets, logs_nothing):
    """Return a function: frames shown per packet, lost packets -> a codec, and its sender."""

    def play(shown, lost):
        codec = LossReportingCodec(Played(packets[0], shown, lost))
        return codec, lambda numbers: {n: codec.decode(n, packets[1][n]) for n in numbers}

    return play


EACH = {number: [number] for number in range(48)}


def reported(results):
    return {number: result.reported for number, result in results.items() if result.reported}


def test_frames_are_damaged_from_the_lost_reference_to_the_next_keyframe(played):
    shown = {5: [4], 7: [5, 7], 8: [6], 12: [8], 13: [13], 14: [12, 14]}
    codec, send = played(shown, lost={6})
    # 5 was decoded before, and 13 is shown before the keyframe, 12; 14 is after it.
    assert reported(send(range(15))) == {7: [7], 8: [6], 12: [8], 13: [13]}
    assert reported(send(range(5, 9))) == {7: [7], 8: [6]}
    codec.flush()
    assert reported(send((12, 13, 14))) == {}


def test_a_second_loss_extends_the_damage_to_the_next_keyframe(played):
    _, send = played(EACH, lost={6, 13, 14})
    assert list(reported(send(range(48)))) == [*range(6, 12), *range(13, 24)]


def test_nothing_is_shown_before_the_first_random_access_point(played):
    _, send = played(EACH, lost={})
    assert [len(result.shown) for result in send(range(9, 15)).values()] == [0, 0, 0, 1, 1, 1]


def test_a_new_ffmpeg_uses_the_plain_codec(packets, monkeypatch):
    context, _ = packets
    for is_old, kind in ((False, FfmpegCodec), (True, LossReportingCodec)):
        monkeypatch.setattr(reference_codec, "_OUTPUTS_LOST", is_old)
        assert type(ffmpeg_codec(prepare(context))) is kind
    assert type(ffmpeg_codec(av.CodecContext.create("h264", "r"))) is FfmpegCodec


def test_frames_with_missing_packets_are_listed(written, tmp_path, logs_nothing):
    """FFmpeg withholds them or marks them as damaged; the others equal the whole file's."""
    lossy = drop_packets(written(OPEN), tmp_path / "lossy.mp4", ordinals=[13])
    index = StreamIndex.scan(lossy, count_by="decode")
    damaged = {k for k in range(len(index)) if index.frame_status.is_damaged(k)}
    assert len(index) - len(damaged) <= 48 - 11
