"""How videos are decoded is one value, and what cannot be decoded that way is refused before."""

import re
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch

import headrace
from decode.linear import linear_frames
from headrace.decode.capabilities import Capabilities
from headrace.decode.decoding import ON_CPU, Decoding
from headrace.decode.index_store import IndexStore
from headrace.decode.open import capabilities_of, open_decoder, open_device_decoder, open_index
from headrace.decode.option_words import in_option_words, saying_option
from headrace.decode.pixels import Stack
from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.decode.reading import read_whole
from headrace.errors import BackendError, ConfigError, OpenError
from headrace.testing.synth import KINDS, read_number, write_clip
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex

ON_GPU = Decoding(device="cuda:0")


@pytest.fixture
def index(tmp_path):
    return StreamIndex.scan(write_clip(tmp_path / "clip", KINDS["h264"]))


def test_the_number_of_a_gpu_becomes_the_value_and_back():
    assert Decoding.on_gpu(None) == ON_CPU == Decoding()
    assert Decoding.on_gpu(3) == Decoding(device="cuda:3")
    assert (ON_CPU.gpu, Decoding(device="cuda:12").gpu) == (None, 12)


@pytest.mark.parametrize("device", ["gpu", "cuda", "cuda:", "cuda:-1", "cpu:0", "mps"])
def test_another_kind_of_device_is_refused(device):
    with pytest.raises(ConfigError, match=f"device must be cpu or cuda:N.* got '{device}'"):
        Decoding(device=device)


@pytest.mark.parametrize("device", [None, 0, torch.device("cpu")])
def test_what_is_no_word_for_a_device_is_refused(device):
    with pytest.raises(
        ConfigError, match="device must be cpu or cuda:N.* got " + re.escape(repr(device))
    ):
        Decoding(device=device)


def test_a_way_is_named_by_a_word():
    with pytest.raises(ConfigError, match=r"a way to decode is a word, .* got 0"):
        Decoding.named(0)


def test_whether_frames_stay_is_yes_or_no():
    with pytest.raises(ConfigError, match="keeps_on_device must be True or False, got 'no'"):
        Decoding(keeps_on_device="no")


@pytest.mark.parametrize(
    ("way", "decoding"),
    [
        ("cpu", Decoding()),
        ("cuda", Decoding(device="cuda:0")),
        ("cuda:2", Decoding(device="cuda:2")),
        ("pyav", Decoding()),
        ("torchcodec", Decoding(backend="torchcodec")),
        ("torchcodec:cpu", Decoding(backend="torchcodec")),
        ("torchcodec:cuda", Decoding(backend="torchcodec", device="cuda:0")),
        ("pynvvideocodec:cuda", Decoding(backend="pynvvideocodec", device="cuda:0")),
        ("torchcodec:cuda:3", Decoding(backend="torchcodec", device="cuda:3")),
    ],
)
def test_a_command_line_names_it(way, decoding):
    assert Decoding.named(way) == decoding == Decoding.named(decoding.name)
    assert Decoding.named(way, keeps_on_device=True) == replace(decoding, keeps_on_device=True)


@pytest.mark.parametrize("way", ["gpu", "", ":", "nvdec:cuda:0", "mps"])
def test_a_name_of_no_way_is_refused_with_those_there_are(way):
    with pytest.raises(
        BackendError, match=f"no way to decode '{way}'.*pyav, torchcodec, pynvvideocodec.*cuda:0"
    ):
        Decoding.named(way)


@pytest.mark.parametrize("way", ["cpu:0", "cuda:", "torchcodec:gpu", "torchcodec:cuda:x"])
def test_a_name_of_no_device_is_refused(way):
    with pytest.raises(ConfigError, match="device must be cpu or cuda:N"):
        Decoding.named(way)


def test_a_decoding_and_a_gpu_at_once_are_refused(index):
    with pytest.raises(ConfigError, match="give decoding or gpu, got both"):
        open_decoder(index, decoding=ON_CPU, gpu=0)


@pytest.mark.parametrize(
    "open_it",
    [
        lambda clip: open_decoder(clip, decoding="cuda:0"),
        lambda clip: open_device_decoder(clip, decoding="cuda:0"),
        lambda clip: headrace.open(clip, decoding="cuda:0"),
        lambda clip: headrace.read_clip(clip, num_frames=1, decoding="cuda:0"),
        lambda clip: headrace.read_frames([clip], decoding="cuda:0"),
        lambda clip: headrace.FrameLoader([clip], batch_size=1, decoding="cuda:0"),
        lambda clip: headrace.FrameDataset([clip], decoding="cuda:0"),
        lambda clip: headrace.VideoDataset([clip], decoding="cuda:0", clip_len=1),
    ],
)
def test_whoever_takes_a_decoding_refuses_what_is_none_and_says_what_is(tmp_path, open_it):
    clip = write_clip(tmp_path / "clip", KINDS["h264"])
    words = r"must be a headrace.Decoding, got 'cuda:0'; .*Decoding\(device='cuda:0'\)"
    with pytest.raises(ConfigError, match=words):
        open_it(clip)


@pytest.mark.parametrize("opener", [open_decoder, open_device_decoder])
def test_a_size_is_no_shape_and_that_is_said(index, opener):
    words = r"must be a headrace.FrameShape, got \(48, 64\); .*FrameShape\(size="
    with pytest.raises(ConfigError, match=words):
        opener(index, (48, 64))


@pytest.mark.parametrize(
    ("capable", "words"),
    [
        (Capabilities(codecs=("vp9", "hevc")), "h264 in yuv420p; .* any pixel format in vp9, hevc"),
        (Capabilities(pixel_formats=("yuv444p",)), "h264 in yuv420p; .* yuv444p in any codec"),
        (Capabilities(largest=(95, 4096)), r"yuv420p, 96x128; .* at most 95x4096 \(height x"),
        (Capabilities(largest=(4096, 127)), "yuv420p, 96x128; .* at most 4096x127"),
    ],
)
def test_what_a_backend_does_not_declare_is_refused_with_what_it_does(index, capable, words):
    with pytest.raises(BackendError, match=f"GPU 0 was asked for to decode .*clip.mp4.*{words}"):
        capable.check(ON_GPU, index)


def test_what_a_backend_declares_is_accepted(index):
    codecs, formats = ("h264",), ("yuv420p",)
    Capabilities(codecs=codecs, pixel_formats=formats, largest=(96, 128)).check(ON_GPU, index)


def test_the_cpu_refuses_nothing_and_a_gpu_what_is_interlaced(index):
    interlaced = replace(index, info=replace(index.info, is_interlaced=True))
    capabilities_of(ON_CPU).check(ON_CPU, interlaced)
    with pytest.raises(BackendError, match=r"h264 in yuv420p, interlaced; .* not interlaced"):
        capabilities_of(ON_GPU).check(ON_GPU, interlaced)


def test_frames_that_a_backend_cannot_keep_on_the_device_are_refused_and_not_brought_down(index):
    kept = Decoding(device="cuda:0", keeps_on_device=True)
    with pytest.raises(BackendError, match="keep its frames there, which the backend pyav cannot"):
        Capabilities().check(kept, index)
    capabilities_of(kept).check(kept, index)
    Capabilities().check(Decoding(keeps_on_device=True), index)


class TensorConverter:
    """Makes frames into tensors, as a backend that keeps them on its device would."""

    def shape_of(self, frame):
        return frame.height, frame.width, 3

    def new(self, shape):
        return torch.empty(shape, dtype=torch.uint8)

    def convert(self, frame, out):
        out = self.new(self.shape_of(frame)) if out is None else out
        out.copy_(torch.from_numpy(frame.to_ndarray(format="rgb24")))
        return out


@pytest.mark.parametrize("by_stack", [False, True])
def test_a_decoder_hands_out_what_its_converter_makes(index, by_stack):
    wanted = DecodeJob((3, 4, 20), goes_on=False)
    expected = np.array(linear_frames(index.source.path, FrameShape()))[[3, 4, 20]]
    with closing(PyavDecoder(index, None, ON_CPU, TensorConverter())) as decoder:
        if by_stack:
            frames, concealed = read_whole(decoder, [wanted])
            assert concealed == frozenset()
        else:
            frames = torch.stack([frame for _, frame in decoder.run(wanted)])
    assert isinstance(frames, torch.Tensor)
    assert np.array_equal(frames.numpy(), expected)


def test_a_stack_takes_its_memory_from_whoever_makes_the_pixels():
    stack = Stack(2)
    place = stack.place(1, (4, 6, 3), lambda shape: torch.zeros(shape, dtype=torch.uint8))
    place[...] = 7
    assert stack.frames.shape == (2, 4, 6, 3)
    assert (int(stack.frames[0].sum()), int(stack.frames[1].min())) == (0, 7)
    stack.place(0, (2, 6, 3), torch.empty)
    assert stack.misfits == [0]


def test_a_decoder_opens_from_a_path_or_an_index(tmp_path):
    path, store = write_clip(tmp_path / "clip", KINDS["h264"]), IndexStore(tmp_path / "store")
    for source in (str(path), path, open_index(path, store)):
        with closing(open_decoder(source, store=store)) as decoder:
            [(_, frame)] = decoder.run(DecodeJob((31,)))
            assert read_number(frame) == 31
    assert (store.counters.misses, store.counters.hits) == (1, 2)


def test_an_unknown_backend_is_refused_by_name(tmp_path):
    with pytest.raises(BackendError, match="no backend 'gpu'; there is pyav"):
        open_decoder(tmp_path / "clip.mp4", decoding=Decoding(backend="gpu"))


def test_opening_touches_no_video_until_a_job_runs(tmp_path):
    path, store = write_clip(tmp_path / "clip", KINDS["h264"]), IndexStore(tmp_path / "store")
    with closing(open_decoder(path, store=store)) as decoder:
        assert decoder.counters.opens == 0
    with pytest.raises(OpenError):
        open_decoder(tmp_path / "missing.mp4", store=store)


def test_the_cure_is_the_option():
    said = "GPU 0 was asked for to decode a.mp4; leave gpu out, or encode the file anew"
    assert in_option_words(said) == said.replace("gpu out", "--decode out")
    assert in_option_words("install it, or leave backend out").endswith("leave --decode out")


def test_the_cause_stays_and_other_errors_are_left_alone():
    cause = MemoryError()
    with pytest.raises(BackendError, match="leave --decode out") as caught, saying_option():
        raise BackendError("none; leave gpu out") from cause
    assert caught.value.__cause__ is cause
    with pytest.raises(ConfigError, match="leave gpu out"), saying_option():
        raise ConfigError("leave gpu out")
