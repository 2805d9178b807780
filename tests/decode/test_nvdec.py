"""A GPU gives the frames of the CPU, or an error that says why not: never others, never none."""

import json
import os
import re
import subprocess
import sys
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from av.packet import Packet
from av.video.reformatter import VideoReformatter

from decode import stand_in
from decode.gpus import needs_gpu, needs_no_gpu
from decode.stand_in import SHAPES
from headrace.decode import nvdec
from headrace.decode.convert import FrameConverter
from headrace.decode.decoding import Decoding
from headrace.decode.gpu_frames import GpuFrames
from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeCounters, DecodeJob
from headrace.decode.resting_codecs import RestingCodecs
from headrace.errors import BackendError
from headrace.testing.synth import KINDS, write_clip
from headrace.video.codec import Shown, new_codec, packets_of
from headrace.video.container import open_container
from headrace.video.shape import Orientation
from headrace.video.stream_index import StreamIndex
from media import read_frames

ON_GPU = Decoding.on_gpu(0)
SEMIPLANAR = {"yuv420p": "nv12", "yuvj420p": "nv12", "yuv420p10le": "p010le"}


@pytest.fixture
def scanned(tmp_path):
    """Return a function: name of a kind -> the index of its clip."""
    return lambda kind: StreamIndex.scan(write_clip(tmp_path / kind, KINDS[kind]))


def frames_of(index, shape=None, *, gpu):
    wanted = DecodeJob(tuple(range(len(index))), goes_on=False)
    with closing(open_decoder(index, shape, gpu=gpu)) as decoder:
        return [frame for _, frame in decoder.run(wanted)]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    "kind", ["h264_b_frames", "bt709_full", "hevc_10_bit", "bt2020", "odd_size", "vp8"]
)
def test_frames_as_gpus_store_them_become_those_of_the_cpu(scanned, kind, shape):
    index = scanned(kind)
    gpu = GpuFrames(ON_GPU, index)
    for frame in read_frames(index.source.path)[:4]:
        stored = VideoReformatter().reformat(frame, format=SEMIPLANAR[frame.format.name])
        stored.colorspace = frame.colorspace
        expected, found = (
            FrameConverter(shape, Orientation(), "clip").convert(each, None)
            for each in (frame, gpu.planar(stored))
        )
        assert np.array_equal(found, expected)


@needs_no_gpu
def test_without_a_gpu_nothing_is_decoded_on_the_cpu_instead(scanned):
    with pytest.raises(
        BackendError, match=r"GPU 0 .*CUDA cannot start there: .* driver .*leave gpu out"
    ):
        frames_of(scanned("h264"), gpu=0)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("odd_size_444", "h264 in yuv444p"),
        ("ffv1", "ffv1 in yuv420p"),
        ("av1", "av1 in yuv420p"),
        ("odd_size", "vp9 in yuv420p, 75x53; .* of even sides"),
    ],
)
def test_what_gpus_do_not_decode_is_refused(scanned, kind, words):
    with pytest.raises(BackendError, match=words):
        frames_of(scanned(kind), gpu=0)


KINDS_OF_STAND_IN = (
    *("h264_b_pyramid", "h264_open_gop", "h264_intra_refresh", "hevc", "hevc_open_gop"),
    *("hevc_10_bit", "vp8", "vp9_hidden", "mpeg4", "rotated_90", "bt709_full", "ts", "annex_b"),
)
NO_FRAME = r"BackendError: GPU 0 gave no frame \d+ of .*, which the CPU decodes.*leave gpu out"
OTHER_SIZE = (
    r"BackendError: GPU 0 gives pictures of {} of .*, which begins with {}: .* leave gpu out"
)


@pytest.fixture(scope="module")
def on_stand_in(tmp_path_factory):
    """How frames of the stand-in compare with those of the CPU: what stand_in.parity prints."""
    if not stand_in.CAN_BE_BUILT:
        pytest.skip("gcc and the headers of NVIDIA's codecs are not here: libffmpeg-nvenc-dev")
    driver, work = (tmp_path_factory.mktemp(name) for name in ("driver", "work"))
    stand_in.build(driver)
    tests = Path(__file__).parents[1]
    environment = {"LD_LIBRARY_PATH": str(driver), "STAND_IN_PICTURES": str(work / "pictures")}
    run = subprocess.run(
        [sys.executable, "-m", "decode.stand_in.parity", work, *KINDS_OF_STAND_IN],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(run.stdout)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS_OF_STAND_IN)
def test_frames_that_come_down_are_found_in_order_and_after_seeks(on_stand_in, kind, shape):
    assert on_stand_in[f"{kind}, {shape}"] == "equal"


@pytest.mark.parametrize("kind", KINDS_OF_STAND_IN)
def test_frames_that_stay_are_found_in_order_and_after_seeks(on_stand_in, kind):
    assert on_stand_in[f"{kind}, kept"] == "equal"


@pytest.mark.parametrize("reader", ["CameraLoader", "CameraStreamDataset, spawned"])
def test_camera_streams_that_come_down_are_those_of_the_cpu(on_stand_in, reader):
    assert on_stand_in[reader] == "equal"


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("unknown", [NO_FRAME] * 2),
        ("damaged", [r"DecodeError: frame \d and 3 more .*the file is damaged there"] * 2),
        ("cropped", [OTHER_SIZE.format("192x64", "128x64")] * 2),
        ("resized", ["equal", *[OTHER_SIZE.format("64x72", "64x48")] * 2]),
        ("wrong", ["BackendError: GPU 0 gives other pixels of .* than the CPU; leave gpu out"] * 2),
        ("broken", ["equal", NO_FRAME, "equal"]),
        ("exhausted", ["equal", NO_FRAME, "equal"]),
        ("reused", ["equal"] * 6),
        ("in_the_way", ["equal"] * 2),
    ],
)
def test_what_a_gpu_does_wrong_is_named_and_never_delivered(on_stand_in, failure, expected):
    """Also by the next job of the same decoder; and a GPU that works again is used again."""
    found = on_stand_in[failure]
    assert len(found) == len(expected)
    for said, words in zip(found, expected, strict=True):
        assert re.match(words, said)


def test_a_codec_that_was_told_other_parameter_sets_is_not_used_again(scanned, monkeypatch):
    """They stand in the first packet and outlast a flush, where another file has only a header."""
    monkeypatch.setattr(nvdec.Nvdec, "_new_codec", lambda _, stream: opened(new_codec(stream)))
    monkeypatch.setattr(nvdec, "RESTING", RestingCodecs())
    index = scanned("h264")
    codecs = nvdec.Nvdec(ON_GPU, index)
    container, stream = open_container(index.source)
    with container:
        plain = next(packets_of(container, stream, "clip"))
        sets = b"\x00\x00\x00\x04\x68\xce\x3c\x80"
        first = codecs.codec(stream, Packet(sets + bytes(plain)))
        codecs.let_rest(first, is_sound=True)
        second = codecs.codec(stream, plain)
        codecs.let_rest(second, is_sound=True)
        assert second.context is not first.context
        assert codecs.codec(stream, plain).context is second.context


def opened(codec):
    codec.open()
    return codec


def test_interlaced_video_is_refused(scanned):
    index = scanned("h264")
    interlaced = replace(index, info=replace(index.info, is_interlaced=True))
    with pytest.raises(BackendError, match=r"h264 in yuv420p, interlaced; .* leave gpu out"):
        open_decoder(interlaced, gpu=0)


def test_an_ffmpeg_without_nvdec_is_refused(scanned, monkeypatch):
    """PyAV would decode on the CPU, or on another kind of GPU, without a word."""
    monkeypatch.setattr(nvdec, "context_of_torch", nullcontext)
    monkeypatch.setattr(nvdec, "new_codec", lambda stream, _: stream.codec_context)
    monkeypatch.setattr(nvdec, "_DECODER", None)  # any library that is there
    with pytest.raises(BackendError, match="for h264 FFmpeg has no decoder on NVIDIA GPUs"):
        frames_of(scanned("h264"), gpu=0)
    monkeypatch.setattr(nvdec, "hwdevices_available", lambda: ["drm"])
    with pytest.raises(BackendError, match="built without CUDA; install PyAV as a wheel"):
        frames_of(scanned("h264"), gpu=0)


def test_a_driver_without_its_decoder_is_said_so_with_the_cure(scanned, monkeypatch):
    monkeypatch.setattr(nvdec, "context_of_torch", nullcontext)
    monkeypatch.setattr(nvdec, "_DECODER", "libnvcuvid.so.0")
    with pytest.raises(BackendError, match=r"its driver has no decoder \(libnvcuvid.so.0 .*video"):
        frames_of(scanned("h264"), gpu=0)


def test_what_comes_down_is_counted_in_bytes(scanned):
    index = scanned("h264")
    frames = list(read_frames(str(index.source)))[:2]
    shown = [Shown(number, frame) for number, frame in enumerate(frames)]
    found = GpuFrames(ON_GPU, index)
    found.check(0, None, shown)
    assert found.brought_down_bytes == sum(p.buffer_size for f in frames for p in f.planes)
    counters = DecodeCounters(opens=1)
    GpuFrames(ON_GPU, index, counters).check(0, None, shown)
    assert counters == DecodeCounters(opens=1, brought_down_bytes=found.brought_down_bytes)


@needs_gpu
@pytest.mark.parametrize("kind", ["h264", "h264_b_pyramid", "hevc", "hevc_10_bit", "vp9"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_frames_from_the_gpu_are_those_from_the_cpu(scanned, kind, shape):
    index = scanned(kind)
    expected, found = (frames_of(index, shape, gpu=gpu) for gpu in (None, 0))
    assert np.array_equal(found, expected)
