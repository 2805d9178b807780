"""torchcodec gives the frames of our index, or an error that says why it does not."""

import sys
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest

from decode.backends import TORCHCODEC, needs_torchcodec
from decode.gpus import needs_gpu, needs_no_gpu
from decode.linear import linear_frames
from forked import in_a_fork
from headrace.decode import by_torchcodec, torchcodec_file
from headrace.decode.decoding import Decoding
from headrace.decode.open import (
    capabilities_of,
    open_decoder,
    open_device_decoder,
    usable_backends,
)
from headrace.decode.protocol import DecodeJob
from headrace.decode.tolerance import Apart
from headrace.errors import BackendError, DecodeError
from headrace.runtime import forks
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, read_number, write_clip
from headrace.video.shape import FrameShape
from headrace.video.stream_index import StreamIndex
from media import real_clip
from tests.kit.synth_recipes import write_recipe

ON_GPU = Decoding(backend="torchcodec", device="cuda:0")


@pytest.fixture
def index(tmp_path):
    return StreamIndex.scan(write_clip(tmp_path / "clip", KINDS["h264_b_frames"]))


def frames_of(index, *wanted, decoding=TORCHCODEC, shape=None):
    with closing(open_decoder(index, shape, decoding)) as decoder:
        return dict(decoder.run(DecodeJob(wanted)))


@needs_torchcodec
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("ts", "frames are not found again in the container mpegts"),
        ("annex_b", "frames are not found again in the container h264"),
        ("avi_h264", "its packets do not tell which frames there are"),
        ("h264_intra_refresh", "its packets do not tell which frames there are"),
        ("mirrored", "it is to be mirrored, which it would not be"),
        ("ffv1", "a keyframe of it is not certain"),
    ],
)
def test_a_file_in_which_it_would_find_other_frames_is_refused(tmp_path, kind, words):
    index = StreamIndex.scan(write_clip(tmp_path / kind, KINDS[kind]))
    with pytest.raises(BackendError, match=rf"torchcodec on the CPU .*: {words}.*; leave backend"):
        open_decoder(index, None, TORCHCODEC)


@needs_torchcodec
@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("h264_sets_told_once_mp4", "it changes on the way how it is to be decoded"),
        ("h263_every_sample_sync_3gp", "a keyframe of it is not certain"),
    ],
)
def test_a_file_that_a_seek_does_not_do_justice_is_refused(tmp_path, recipe, words):
    index = StreamIndex.scan(write_recipe(recipe, tmp_path))
    with pytest.raises(BackendError, match=words):
        open_decoder(index, None, TORCHCODEC)


@needs_torchcodec
def test_sixteen_bits_and_concealing_are_refused(index):
    with pytest.raises(BackendError, match="uint16 was asked for, and it gives uint8"):
        open_decoder(index, FrameShape(dtype="uint16"), TORCHCODEC)
    with (
        closing(open_decoder(index, None, TORCHCODEC)) as decoder,
        pytest.raises(BackendError, match="to conceal damage, which it does not tell"),
    ):
        list(decoder.run(DecodeJob((3,), conceals=True)))


@needs_torchcodec
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_frames_that_should_be_tensors_on_a_device_are_refused(index, device):
    decoding = Decoding(backend="torchcodec", device=device, keeps_on_device=True)
    with pytest.raises(BackendError, match="torchcodec gives arrays; leave the backend out"):
        open_device_decoder(index, None, decoding)


@needs_torchcodec
def test_each_gop_is_looked_through_once_whoever_asks(index):
    with closing(open_decoder(index, None, TORCHCODEC)) as decoder:
        list(decoder.run(DecodeJob((5,))))
        assert decoder.counters.packets_read >= 12
    with closing(open_decoder(index, None, TORCHCODEC)) as decoder:
        list(decoder.run(DecodeJob((6, 7))))
        assert decoder.counters.packets_read == 0
        list(decoder.run(DecodeJob((15,))))
        assert decoder.counters.packets_read >= 12
    assert index.verdicts.table is None, "PyAV would hold every picture against a checksum"


@needs_torchcodec
def test_of_a_long_gop_no_more_is_looked_through_than_is_asked_for(tmp_path):
    clip = SynthClip(num_frames=900, size=(32, 32), gop=900)
    index = StreamIndex.scan(write_clip(tmp_path / "long", clip))
    assert index.num_gops == 1
    with closing(open_decoder(index, None, TORCHCODEC)) as decoder:
        for wanted, most in ((3, 270), (250, 270), (300, 800), (511, 800), (899, 1800)):
            assert list(dict(decoder.run(DecodeJob((wanted,))))) == [wanted]
            assert decoder.counters.packets_read <= most


@needs_torchcodec
def test_frames_before_a_fault_that_was_found_later_still_come(tmp_path):
    good = write_clip(tmp_path / "good", SynthClip(num_frames=600, size=(32, 32), gop=600))
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[400])
    with closing(open_decoder(StreamIndex.scan(bad), None, TORCHCODEC)) as decoder:
        assert list(dict(decoder.run(DecodeJob((200,))))) == [200]
        with pytest.raises(DecodeError, match="damaged, and torchcodec does not tell") as raised:
            list(decoder.run(DecodeJob((201, 450))))
        assert raised.value.missing == (450,)
        assert list(dict(decoder.run(DecodeJob((202,))))) == [202]


@needs_torchcodec
def test_another_picture_than_that_of_pyav_is_refused(index, monkeypatch):
    right = torchcodec_file.TorchcodecFile.picture
    monkeypatch.setattr(
        torchcodec_file.TorchcodecFile, "picture", lambda self, number: 255 - right(self, number)
    )
    with pytest.raises(
        BackendError, match=r"another picture of frame 5 .* levels apart in the mea"
    ):
        frames_of(index, 5)
    assert index.verdicts.sound == {}


@needs_torchcodec
def test_another_frame_than_the_one_asked_for_is_refused_by_its_time(index, monkeypatch):
    index.pts.setflags(write=True)
    index.pts[20:] += index.duration[0] // 2
    with pytest.raises(BackendError, match=r"for frame 20, .* it gives what is shown at .*leave b"):
        frames_of(index, 20)


def test_without_the_package_an_error_names_the_extra(index, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    with pytest.raises(BackendError, match=r"cannot be imported .*pip install 'headrace\[torchc"):
        open_decoder(index, None, TORCHCODEC)
    assert "cannot be imported" in usable_backends()["torchcodec"]


def test_without_its_libraries_an_error_says_which(index, monkeypatch):
    installed = SimpleNamespace(ffmpeg_major_version=None, decoders=None)
    monkeypatch.setitem(sys.modules, "torchcodec", installed)
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", SimpleNamespace())
    with pytest.raises(BackendError, match=r"cannot load FFmpeg's shared libraries.* apt install"):
        capabilities_of(TORCHCODEC)


@needs_torchcodec
@needs_no_gpu
def test_without_a_gpu_nothing_is_decoded_on_the_cpu_instead(index):
    with pytest.raises(BackendError, match=r"on cuda:0, and CUDA cannot start there: .*leave devi"):
        frames_of(index, 3, decoding=ON_GPU)


@needs_torchcodec
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_is_told_before_cuda_is_touched(index, monkeypatch):
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: True)

    def is_told():
        with pytest.raises(BackendError, match="forked from one that uses CUDA"):
            frames_of(index, 3, decoding=ON_GPU)
        return True

    assert in_a_fork(is_told)


@needs_torchcodec
def test_decoding_on_the_cpu_instead_of_the_gpu_is_told(index, monkeypatch):
    file = torchcodec_file.TorchcodecFile(index, TORCHCODEC)
    file._needs_check = True
    monkeypatch.setattr(type(file._decoder), "cpu_fallback", "NVcuvid unavailable")
    with pytest.raises(BackendError, match=r"decodes on the CPU instead \(NVcuvid unavailable\)"):
        file.picture(3)
    with closing(by_torchcodec.TorchcodecDecoder(index, None, TORCHCODEC)) as decoder:
        assert decoder.concealed == frozenset()


@needs_torchcodec
def test_resized_pictures_of_a_real_clip_are_the_same():
    path, shape = real_clip("pliers/shot_change.mp4"), FrameShape(size=(224, 224))
    index, expected = StreamIndex.scan(path), linear_frames(path, shape)
    for number, frame in frames_of(index, 3, 70, 140, shape=shape).items():
        assert Apart.between(frame, expected[number]).is_same


@needs_torchcodec
@needs_gpu
def test_frames_of_the_gpu_are_those_of_the_index(index):
    expected = linear_frames(index.source.path)
    for number, frame in frames_of(index, *range(48), decoding=ON_GPU).items():
        assert read_number(frame) == number
        assert Apart.between(frame, expected[number]).is_same


def test_pictures_are_told_apart_by_mean_and_by_far_numbers():
    grey = np.full((4, 5, 3), 100, np.uint8)
    assert Apart.between(grey, grey) == Apart(mean=0.0, most=0, far_share=0.0)
    assert Apart.between(grey + 2, grey).is_same
    assert not Apart.between(grey + 3, grey).is_same
    edge = grey.copy()
    edge[0, 0] = 120
    assert not Apart.between(edge, grey).is_same
    assert Apart.between(grey, grey[:2]) is None
