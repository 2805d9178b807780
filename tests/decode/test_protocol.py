"""Contract of every backend: the frames of the index, in order, complete, in their own memory.

Without a GPU, PyNvVideoCodec is a fake by our reading of its interface, which no GPU has confirmed.
With a GPU and the extra `pynvvideocodec`, the same tests run on the library.
"""

import random
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import headrace
from decode.backends import EACH_BACKEND
from decode.gpus import want_backend_of_gpu
from decode.kit import frames_of, run
from decode.linear import linear_frames
from decode.pynvvideocodec_played import plays
from headrace import ConfigError, DecodeJob, FrameFormat, OpenError, StreamIndex, open_decoder
from headrace.decode.capabilities import PixelDifference
from headrace.decode.decoder_config import DecoderConfig
from headrace.decode.frame_outputs import StackedOutput
from headrace.decode.open_decoder import DecoderPool
from headrace.testing import damage
from headrace.testing.synth import SynthClip, read_number, write_streams
from media import real_clip

ON_CPU = pytest.mark.parametrize("decoding", EACH_BACKEND)


@pytest.fixture(params=[*EACH_BACKEND, "played", "of_the_gpu"])
def decoding(request, monkeypatch):
    """Each backend on the CPU; PyNvVideoCodec on GPU 0, or its fake."""
    if isinstance(request.param, DecoderConfig):
        return request.param
    if request.param == "played":
        plays(monkeypatch)
    else:
        want_backend_of_gpu("pynvvideocodec")
    return DecoderConfig(backend="pynvvideocodec", device="cuda:0")


SHARED_KINDS = (
    *("h264_b_pyramid", "h264_open_gop", "hevc_open_gop", "vp8_hidden", "vp9_hidden", "av1"),
    *("mpeg4_open_gop", "mjpeg", "vfr_mkv", "late_start", "preroll", "h264_one_frame"),
    *("rotated_90", "rotated_270", "odd_size", "hevc_10_bit", "bt709_full", "bt2020"),
)


@pytest.fixture
def decoder(index, decoding):
    with closing(open_decoder(index, None, decoding)) as opened:
        yield opened


@pytest.mark.parametrize("kind", SHARED_KINDS)
@pytest.mark.parametrize("decoding", EACH_BACKEND[1:])
def test_random_access_equals_linear_decode(written, decoding, kind):
    """Of the PyAV backend: see `test_exact.py`."""
    path = written(kind)
    index, expected = StreamIndex.scan(path), linear_frames(path)
    order = random.Random(0).sample(range(len(index)), min(20, len(index)))
    with closing(open_decoder(index, None, decoding)) as decoder:
        for number in order:
            [(found, frame)] = decoder.run(DecodeJob((number,)))
            assert (found, read_number(frame)) == (number, number)
            assert PixelDifference.between(frame, expected[number]).is_equal


def test_frames_of_a_real_clip_equal_linear_decode(decoding):
    path = real_clip("pliers/shot_change.mp4")
    index, expected = StreamIndex.scan(path), linear_frames(path)
    wanted = sorted(random.Random(1).sample(range(len(index)), 12))
    for number, frame in zip(wanted, frames_of(index, None, decoding, wanted), strict=True):
        assert PixelDifference.between(frame, expected[number]).is_equal


def test_frames_are_in_order_and_never_overwritten(decoder):
    wanted = (0, 1, 2, 7, 11, 12, 30, 47)
    assert [number for number, _ in decoder.run(DecodeJob(wanted))] == list(wanted)
    kept = run(decoder, [3, 4, 20])[0]
    copies = {number: frame.copy() for number, frame in kept.items()}
    run(decoder, range(48))
    assert all(np.array_equal(kept[number], copies[number]) for number in copies)
    assert not np.shares_memory(kept[3], kept[4])


@ON_CPU
def test_frames_are_written_to_out(decoder):
    out = np.zeros((2, 96, 128, 3), np.uint8)
    came = dict(decoder.run(DecodeJob((7, 40)), out))
    assert np.shares_memory(came[40], out[1])
    assert [read_number(frame) for frame in out] == [7, 40]
    stack: StackedOutput = StackedOutput(2)
    assert len(list(decoder.run(DecodeJob((8, 41)), stack))) == 2
    assert [read_number(frame) for frame in stack.frames] == [8, 41]


@pytest.mark.parametrize(
    "shape",
    [
        FrameFormat(size=(40, 60), fit="cover", interpolation="bilinear"),
        FrameFormat(crop=headrace.Crop(top=2, left=4, height=40, width=46)),
        FrameFormat(size=(48, 64), fit="contain", interpolation="bicubic"),
        FrameFormat(size=(48, 64)),
        FrameFormat(size=(48, 64), layout="yuv420"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["h264_b_frames", "rotated_90"])
def test_frames_have_the_requested_format(scanned, decoding, kind, shape):
    index, wanted = scanned(kind), (0, 5, 31)
    expected = linear_frames(index.source.path, shape)
    for number, frame in zip(wanted, frames_of(index, shape, decoding, wanted), strict=True):
        apart = PixelDifference.between(frame, expected[number])
        # By area PyAV resizes the stored colors, others RGB: color edges differ.
        assert apart.mean <= (3 if shape.interpolation == "area" else 0)


def test_cost_is_counted(decoder):
    assert (decoder.counters.opens, decoder.counters.frames_decoded) == (0, 0)
    run(decoder, range(12))
    run(decoder, range(12))
    before = decoder.counters + type(decoder.counters)()
    run(decoder, range(12))
    cost = decoder.counters - before
    assert (cost.frames_delivered, cost.opens, cost.seeks) == (12, 0, 1)
    assert 12 <= cost.frames_decoded <= 16
    assert decoder.counters.frames_delivered == 36


def test_a_rested_decoder_runs_again(decoder):
    assert list(run(decoder, [5])[0]) == [5]
    decoder.rest()
    assert read_number(run(decoder, [6])[0][6]) == 6


@pytest.mark.parametrize("wanted", [(48,), (-1, 3)])
def test_a_frame_out_of_range_is_refused(decoder, wanted):
    with pytest.raises(ConfigError, match="has 48 frames"):
        run(decoder, wanted)
    assert decoder.counters == type(decoder.counters)()


def test_a_changed_or_missing_file_is_refused(tmp_path, written, decoding):
    path = Path(shutil.copy(written("h264"), tmp_path / "clip.mp4"))
    with closing(open_decoder(StreamIndex.scan(path), None, decoding)) as decoder:
        run(decoder, [3])
        path.write_bytes(path.read_bytes() + b"more")
        with pytest.raises(OpenError, match="has changed since it was indexed"):
            run(decoder, [4])
        path.unlink()
        with pytest.raises(OpenError, match="no such file"):
            run(decoder, [4])


@ON_CPU
def test_damaged_frames_are_listed_and_others_delivered(written, tmp_path, decoding):
    good = written(SynthClip())
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[26])
    expected = linear_frames(good)
    with closing(open_decoder(StreamIndex.scan(bad), None, decoding)) as decoder:
        came, missing = run(decoder, range(48))
    assert set(range(26, 36)) <= set(missing)
    assert set(came) | set(missing) == set(range(48))
    assert set(came) >= {*range(24), *range(36, 48)}
    assert all(np.array_equal(frame, expected[number]) for number, frame in came.items())


def test_video_in_memory_is_read(written, decoding):
    with headrace.open(written("h264_b_frames").read_bytes(), decoding=decoding) as reader:
        assert [read_number(frame) for frame in reader[[40, 3]]] == [40, 3]


def test_the_requested_stream_is_read(tmp_path, decoding):
    clips = [SynthClip(num_frames=9, size=(64, 96)), SynthClip(num_frames=20, size=(96, 128))]
    path = write_streams(tmp_path / "two", clips)
    for stream, (size, count) in {"v:0": ((64, 96), 9), "v:1": ((96, 128), 20)}.items():
        with headrace.open(path, stream=stream, decoding=decoding) as reader:
            assert (len(reader), reader[-1].shape[:2]) == (count, size)
            assert read_number(reader[5]) == 5


@ON_CPU
def test_several_videos_are_read_in_turn(scanned, decoding):
    indexes = [scanned(kind) for kind in ("h264", "vp9", "hevc")]
    with DecoderPool(FrameFormat(), 2, decoding=decoding) as pool:
        for number in (5, 30, 6):
            for index in indexes:
                [(_, frame)] = pool.decoder(index).run(DecodeJob((number,)))
                assert read_number(frame) == number
