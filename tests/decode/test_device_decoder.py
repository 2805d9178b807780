"""Frames that stay on the device are those that come down, as tensors; arrays are never tensors."""

import sys
from contextlib import closing

import numpy as np
import pytest
import torch

from decode.gpus import NO_GPU, needs_gpu, needs_no_gpu, want_backend_of_gpu
from decode.linear import linear_frames
from forked import in_a_fork
from headrace.decode.decoding import Decoding
from headrace.decode.device_memory import device_memory
from headrace.decode.gpu_frames import GpuFrames
from headrace.decode.open import open_decoder, open_device_decoder
from headrace.decode.protocol import DecodeJob
from headrace.decode.reading import read_whole
from headrace.errors import BackendError, DecodeError
from headrace.runtime import forks
from headrace.testing import damage
from headrace.testing.synth import KINDS, read_number, write_clip
from headrace.video.codec import PlainCodec, new_codec, packets_of
from headrace.video.container import open_container
from headrace.video.shape import Crop, FrameShape
from headrace.video.stream_index import StreamIndex
from media import read_frames

ON_CPU, ON_GPU = (Decoding(device=device, keeps_on_device=True) for device in ("cpu", "cuda:0"))
SHAPES = {
    "as it is": FrameShape(),
    "small": FrameShape(size=(32, 48)),
    "crop, bilinear": FrameShape(
        size=(20, 20), crop=Crop(top=2, left=1, height=41, width=30), interpolation="bilinear"
    ),
}


def tensors_of(index, shape=None, decoding=ON_CPU, wanted=None):
    job = DecodeJob(tuple(range(len(index)) if wanted is None else wanted), goes_on=False)
    with closing(open_device_decoder(index, shape, decoding)) as decoder:
        return [frame for _, frame in decoder.run(job)]


def apart(found, expected):
    return np.abs(np.asarray(found, int) - np.asarray(expected, int)).max()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        *[("h264_b_pyramid", shape) for shape in SHAPES.values()],
        *[(kind, SHAPES["small"]) for kind in ("hevc_10_bit", "rotated_90", "bt709_full")],
    ],
)
def test_tensors_made_on_the_cpu_are_the_frames_that_come_as_arrays(scanned, kind, shape):
    index = scanned(kind)
    found = tensors_of(index, shape)
    assert {(each.dtype, each.device.type) for each in found} == {(torch.uint8, "cpu")}
    assert apart(found, linear_frames(index.source.path, shape)) <= 5


def test_they_are_found_after_seeks_and_stacked(scanned):
    index = scanned("h264_open_gop")
    with closing(open_device_decoder(index, decoding=ON_CPU)) as decoder:
        frames, _ = read_whole(decoder, [DecodeJob((41, 43)), DecodeJob((3, 4, 20))])
    assert isinstance(frames, torch.Tensor)
    assert [read_number(each.numpy()) for each in frames] == [41, 43, 3, 4, 20]


def test_frames_are_written_into_a_tensor_that_is_given(scanned):
    index = scanned("h264")
    out = torch.zeros(2, 32, 48, 3, dtype=torch.uint8)
    with closing(open_device_decoder(index, SHAPES["small"], ON_CPU)) as decoder:
        frames = dict(decoder.run(DecodeJob((5, 9), goes_on=False), out))
    expected = tensors_of(index, SHAPES["small"], wanted=(5, 9))
    assert torch.equal(out, torch.stack(expected))
    assert frames[9].data_ptr() == out[1].data_ptr()


def test_damaged_frames_are_named_or_shown_as_for_arrays(tmp_path):
    good = write_clip(tmp_path / "good", KINDS["h264_b_frames"])
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[13, 15], seed=1)
    index = StreamIndex.scan(bad)
    everything = tuple(range(len(index)))
    said = []
    for opened in (open_decoder(index), open_device_decoder(index, decoding=ON_CPU)):
        with closing(opened) as decoder:
            with pytest.raises(DecodeError) as caught:
                list(decoder.run(DecodeJob(everything)))
            shown = dict(decoder.run(DecodeJob(everything, conceals=True)))
            assert sorted(shown) == list(everything)
            said.append((caught.value.missing, decoder.concealed))
    assert said[0] == said[1]


def test_whoever_gives_arrays_refuses_frames_that_stay_on_a_gpu(scanned):
    """They are not brought down without a word."""
    with pytest.raises(BackendError, match=r"were to stay on cuda:0, .* open_device_decoder gives"):
        open_decoder(scanned("h264"), decoding=ON_GPU)


def test_frames_that_were_to_come_down_are_no_tensors(scanned):
    with pytest.raises(BackendError, match=r"were to come down; .* or take open_decoder"):
        open_device_decoder(scanned("h264"), decoding=Decoding.on_gpu(0))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("mjpeg", "mjpeg in yuvj"),
        ("av1", "av1 in yuv420p"),
        ("odd_size", "vp9 in yuv420p, 75x53; .* of even sides"),
    ],
)
def test_what_gpus_do_not_decode_is_refused_before(scanned, kind, words):
    with pytest.raises(BackendError, match=f"GPU 0 was asked for to decode .* {words}"):
        open_device_decoder(scanned(kind))


@needs_no_gpu
def test_without_a_gpu_that_is_said_and_nothing_comes_from_the_cpu(scanned):
    with pytest.raises(BackendError, match=r"GPU 0 .*CUDA cannot start there"):
        tensors_of(scanned("h264"), decoding=ON_GPU)


def test_pixels_that_only_the_cpu_converts_end_the_job_with_words(scanned):
    with pytest.raises(BackendError, match=r"stored as yuv444p; .* leave keeps_on_device out"):
        tensors_of(scanned("odd_size_444"))


def test_frames_that_stay_are_handed_on_as_they_are(scanned):
    index = scanned("h264")
    frame = read_frames(index.source.path)[0]
    assert GpuFrames(ON_GPU, index).delivered(frame) is frame


def test_one_keyframe_is_brought_down_to_be_checked_and_no_other(scanned, monkeypatch):
    index, brought_down = scanned("h264_b_pyramid"), []
    gpu = GpuFrames(ON_GPU, index)
    monkeypatch.setattr(gpu, "planar", lambda frame: brought_down.append(frame) or frame)
    container, gpu._stream = open_container(index.source)
    with container:
        codec, came = PlainCodec(new_codec(gpu._stream)), 0
        for ordinal, packet in enumerate(packets_of(container, gpu._stream, "clip")):
            shown = codec.decode(ordinal, packet).shown
            gpu.check(ordinal, packet, shown)
            came += len(shown)
    assert came == len(index)
    assert [frame.key_frame for frame in brought_down] == [True]


@needs_gpu
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    "kind", ["h264", "h264_b_pyramid", "hevc", "hevc_10_bit", "vp9", "bt709_full", "rotated_90"]
)
def test_frames_that_stay_on_the_gpu_are_those_made_on_the_cpu(scanned, kind, shape):
    """All are kept until the last has come: none is overwritten by a later one."""
    index = scanned(kind)
    found = tensors_of(index, shape, ON_GPU)
    assert {str(each.device) for each in found} == {"cuda:0"}
    assert apart([each.cpu() for each in found], tensors_of(index, shape)) <= 1


@needs_gpu
def test_frames_that_stay_on_the_gpu_are_right_on_a_stream_of_ones_own(scanned):
    index = scanned("h264_b_pyramid")
    expected = tensors_of(index)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        found = tensors_of(index, decoding=ON_GPU)
    stream.synchronize()
    assert apart([each.cpu() for each in found], expected) <= 1


@needs_gpu
def test_frames_of_a_gpu_that_stay_are_found_after_seeks(scanned):
    index = scanned("hevc_open_gop")
    for wanted in ((41, 43), (3, 4, 20), (44,)):
        found = tensors_of(index, decoding=ON_GPU, wanted=wanted)
        assert [read_number(each.cpu().numpy()) for each in found] == list(wanted)


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def test_it_is_bytes_of_the_shape_on_the_device():
    found = device_memory((2, 3, 4, 3), "cpu")
    assert (found.shape, found.dtype, found.device.type) == ((2, 3, 4, 3), torch.uint8, "cpu")


@needs_no_gpu
def test_a_device_that_is_not_here_is_named():
    with pytest.raises(BackendError, match=r"\[2, 3\] were to lie on cuda:0, .* keeps_on_device"):
        device_memory((2, 3), "cuda:0")


def test_a_process_that_was_forked_is_told_before_cuda_is_touched(monkeypatch):
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: True)

    def child():
        with pytest.raises(BackendError, match=r"cuda:0 in a process that was forked from one"):
            device_memory((2, 3), "cuda:0")
        return device_memory((2, 3), "cpu").shape == (2, 3)

    assert in_a_fork(child)


@needs_gpu
def test_a_gpu_without_memory_left_is_named():
    with pytest.raises(BackendError, match=r"on cuda:0, .* give a smaller memory_budget"):
        device_memory((1 << 50,), "cuda:0")


@needs_no_gpu
@pytest.mark.parametrize(("asked", "outcome"), [("1", "failed"), ("", "skipped")])
def test_a_gpu_that_is_required_is_not_skipped(monkeypatch, asked, outcome):
    monkeypatch.setenv("REQUIRE_GPU", asked)

    @needs_gpu
    def test(number):
        raise AssertionError("it ran without a GPU")

    if outcome == "failed":
        with pytest.raises(pytest.fail.Exception, match=f"{NO_GPU}, and REQUIRE_GPU=1"):
            test(number=1)
    else:
        [mark] = test.pytestmark
        assert (mark.name, mark.kwargs) == ("skip", {"reason": NO_GPU})


@needs_no_gpu
@pytest.mark.parametrize(
    ("asked", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_nor_is_one_for_a_backend_that_needs_it(monkeypatch, asked, outcome):
    monkeypatch.setenv("REQUIRE_GPU", asked)
    with pytest.raises(outcome, match=NO_GPU):
        want_backend_of_gpu("pynvvideocodec")


def test_a_backend_that_is_not_installed_is_skipped_and_named(monkeypatch):
    monkeypatch.setenv("REQUIRE_GPU", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "PyNvVideoCodec", None)
    with pytest.raises(pytest.skip.Exception, match=r"pip install 'headrace\[pynvvideocodec\]'"):
        want_backend_of_gpu("pynvvideocodec")
