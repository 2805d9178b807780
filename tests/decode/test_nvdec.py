"""A GPU gives the frames of the CPU, or an error that says why not: never others, never none."""

from contextlib import closing

import numpy as np
import pytest
from av.video.reformatter import VideoReformatter

from decode.gpus import needs_gpu, needs_no_gpu
from headrace.decode.convert import FrameConverter
from headrace.decode.nvdec import Nvdec
from headrace.decode.open import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.errors import BackendError
from headrace.testing.synth import KINDS, write_clip
from headrace.video.shape import FrameShape, Orientation
from headrace.video.stream_index import StreamIndex
from media import read_frames

SHAPES = [FrameShape(), FrameShape(size=(32, 48)), FrameShape(size=(32, 48), layout="yuv420")]
SEMIPLANAR = {"yuv420p": "nv12", "yuvj420p": "nv12", "yuv420p10le": "p010le"}


@pytest.fixture
def scanned(tmp_path):
    """Return a function: name of a kind -> the index of its clip."""
    return lambda kind: StreamIndex.scan(write_clip(tmp_path / kind, KINDS[kind]))


def frames_of(index, shape=SHAPES[0], *, gpu):
    wanted = DecodeJob(tuple(range(len(index))), goes_on=False)
    with closing(open_decoder(index, shape, gpu=gpu)) as decoder:
        return [frame for _, frame in decoder.run(wanted)]


@pytest.mark.parametrize("shape", SHAPES, ids=["as it is", "small", "small yuv420"])
@pytest.mark.parametrize(
    "kind", ["h264_b_frames", "bt709_full", "hevc_10_bit", "bt2020", "odd_size"]
)
def test_frames_as_gpus_store_them_become_those_of_the_cpu(scanned, kind, shape):
    index = scanned(kind)
    nvdec = Nvdec(0, index)
    for frame in read_frames(index.source.path)[:4]:
        stored = VideoReformatter().reformat(frame, format=SEMIPLANAR[frame.format.name])
        expected, found = (
            FrameConverter(shape, Orientation(), "clip").convert(each, None)
            for each in (frame, nvdec.planar(stored))
        )
        assert np.array_equal(found, expected)


@needs_no_gpu
def test_without_a_gpu_nothing_is_decoded_on_the_cpu_instead(scanned):
    with pytest.raises(BackendError, match=r"GPU 0 .*cannot start CUDA.*leave gpu out"):
        frames_of(scanned("h264"), gpu=0)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("odd_size_444", "h264 in yuv444p"),
        ("ffv1", "ffv1 in yuv420p"),
        ("av1", "libdav1d FFmpeg has no decoder"),
    ],
)
def test_what_gpus_do_not_decode_is_refused(scanned, kind, words):
    with pytest.raises(BackendError, match=words):
        frames_of(scanned(kind), gpu=0)


@needs_gpu
@pytest.mark.parametrize("kind", ["h264", "h264_b_pyramid", "hevc", "hevc_10_bit", "vp9"])
@pytest.mark.parametrize("shape", SHAPES, ids=["as it is", "small", "small yuv420"])
def test_frames_from_the_gpu_are_those_from_the_cpu(scanned, kind, shape):
    index = scanned(kind)
    expected, found = (frames_of(index, shape, gpu=gpu) for gpu in (None, 0))
    assert np.array_equal(found, expected)
