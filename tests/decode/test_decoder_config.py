"""Decoder configurations, and torchcodec: it returns the frames of the index, or an error."""

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from decode.backends import TORCHCODEC, needs_torchcodec
from decode.gpus import needs_gpu
from decode.kit import frames_of
from decode.linear import linear_frames
from headrace import DecodeJob, FrameFormat, StreamIndex
from headrace.decode import torchcodec_decoder
from headrace.decode.capabilities import Capabilities, PixelDifference
from headrace.decode.decoder_config import ON_CPU, DecoderConfig, use_option_words
from headrace.decode.open_decoder import capabilities_of, open_decoder, open_index
from headrace.errors import BackendError, ConfigError, DecodeError, OpenError
from headrace.testing import damage
from headrace.testing.synth import SynthClip, read_number
from house_rules import house
from media import real_clip

ON_GPU = DecoderConfig(device="cuda:0")


@pytest.mark.parametrize(
    ("way", "decoding"),
    [
        ("cpu", DecoderConfig()),
        ("cuda", DecoderConfig(device="cuda:0")),
        ("cuda:2", DecoderConfig(device="cuda:2")),
        ("pyav", DecoderConfig()),
        ("torchcodec", DecoderConfig(backend="torchcodec")),
        ("torchcodec:cpu", DecoderConfig(backend="torchcodec")),
        ("torchcodec:cuda", DecoderConfig(backend="torchcodec", device="cuda:0")),
        ("pynvvideocodec:cuda", DecoderConfig(backend="pynvvideocodec", device="cuda:0")),
        ("torchcodec:cuda:3", DecoderConfig(backend="torchcodec", device="cuda:3")),
    ],
)
def test_command_line_parses_it(way, decoding):
    assert DecoderConfig.parse(way) == decoding == DecoderConfig.parse(decoding.name)
    assert DecoderConfig.parse(way, keeps_on_device=True) == replace(decoding, keeps_on_device=True)
    assert DecoderConfig.on_gpu(decoding.gpu) == replace(decoding, backend="pyav")


def test_declared_formats_are_accepted_and_the_cpu_refuses_nothing(index):
    codecs, formats = ("h264",), ("yuv420p",)
    Capabilities(codecs=codecs, pixel_formats=formats, max_size=(96, 128)).check(ON_GPU, index)
    interlaced = replace(index, info=replace(index.info, is_interlaced=True))
    kept = DecoderConfig(device="cuda:0", keeps_on_device=True)
    for decoding, of in ((ON_CPU, interlaced), (kept, index)):
        capabilities_of(decoding).check(decoding, of)
    Capabilities().check(DecoderConfig(keeps_on_device=True), index)


def test_a_decoder_opens_from_a_path_or_an_index(written, store):
    path = written("h264")
    for source in (str(path), path, open_index(path, store)):
        with closing(open_decoder(source, index_store=store)) as decoder:
            [(_, frame)] = decoder.run(DecodeJob((31,)))
            assert read_number(frame) == 31
    assert (store.counters.misses, store.counters.hits) == (1, 2)
    with pytest.raises(OpenError):
        open_decoder(path.with_name("missing.mp4"), index_store=store)


@pytest.mark.parametrize("what", ["gpu", "backend"])
def test_advice_becomes_the_option_and_other_errors_stay(what):
    cause, message = MemoryError(), "^none; leave --decode out, or encode it$"
    with pytest.raises(BackendError, match=message) as caught, use_option_words():
        raise BackendError(f"none; leave {what} out, or encode it") from cause
    assert caught.value.__cause__ is cause
    with pytest.raises(ConfigError, match="leave gpu out"), use_option_words():
        raise ConfigError("leave gpu out")


ON_GPU_BY_TORCHCODEC = DecoderConfig(backend="torchcodec", device="cuda:0")


@needs_torchcodec
def test_each_gop_is_verified_once_per_process(index):
    with closing(open_decoder(index, None, TORCHCODEC)) as decoder:
        list(decoder.run(DecodeJob((5,))))
        assert decoder.counters.packets_read >= 12
    with closing(open_decoder(index, None, TORCHCODEC)) as decoder:
        list(decoder.run(DecodeJob((6, 7))))
        assert decoder.counters.packets_read == 0
        list(decoder.run(DecodeJob((15,))))
        assert decoder.counters.packets_read >= 12
    assert index.frame_status.table is None, "PyAV would compare every frame with its digest"


@needs_torchcodec
def test_a_long_gop_is_verified_only_as_far_as_requested(scanned):
    index = scanned(SynthClip(num_frames=900, size=(32, 32), gop=900))
    assert index.num_gops == 1
    with closing(open_decoder(index, None, TORCHCODEC)) as decoder:
        for wanted, most in ((3, 270), (250, 270), (300, 800), (511, 800), (899, 1800)):
            assert list(dict(decoder.run(DecodeJob((wanted,))))) == [wanted]
            assert decoder.counters.packets_read <= most


@needs_torchcodec
def test_frames_before_damage_found_later_are_delivered(written, tmp_path):
    good = written(SynthClip(num_frames=600, size=(32, 32), gop=600))
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[400])
    with closing(open_decoder(StreamIndex.scan(bad), None, TORCHCODEC)) as decoder:
        assert list(dict(decoder.run(DecodeJob((200,))))) == [200]
        with pytest.raises(
            DecodeError, match=r"damaged between .* and torchcodec does not report where"
        ) as raised:
            list(decoder.run(DecodeJob((201, 450))))
        assert raised.value.missing == (450,)
        assert list(dict(decoder.run(DecodeJob((202,))))) == [202]


@needs_torchcodec
def test_a_frame_that_differs_from_pyavs_is_refused(index, monkeypatch):
    right = torchcodec_decoder.TorchcodecFile.read_frame
    monkeypatch.setattr(
        torchcodec_decoder.TorchcodecFile,
        "read_frame",
        lambda self, number: 255 - right(self, number),
    )
    with pytest.raises(
        BackendError, match=r"frame 5 of .* differs from .*mean difference .* levels"
    ):
        frames_of(index, None, TORCHCODEC, [5])
    assert index.frame_status.verified == {}


@needs_torchcodec
def test_a_frame_with_another_time_is_refused(index, monkeypatch):
    index.pts.setflags(write=True)
    index.pts[20:] += index.duration[0] // 2
    with pytest.raises(BackendError, match=r"returned the frame at .* for frame 20 at .*leave b"):
        frames_of(index, None, TORCHCODEC, [20])


def test_missing_libraries_are_named(index, monkeypatch):
    installed = SimpleNamespace(ffmpeg_major_version=None, decoders=None)
    monkeypatch.setitem(sys.modules, "torchcodec", installed)
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", SimpleNamespace())
    with pytest.raises(BackendError, match=r"cannot load FFmpeg's shared libraries.* apt install"):
        capabilities_of(TORCHCODEC)


@needs_torchcodec
def test_cpu_fallback_is_refused(index, monkeypatch):
    file = torchcodec_decoder.TorchcodecFile(index, TORCHCODEC)
    file._needs_check = True
    monkeypatch.setattr(type(file._decoder), "cpu_fallback", "NVcuvid unavailable")
    with pytest.raises(BackendError, match=r"decodes on the CPU instead \(NVcuvid unavailable\)"):
        file.read_frame(3)
    with closing(torchcodec_decoder.TorchcodecDecoder(index, None, TORCHCODEC)) as decoder:
        assert decoder.concealed == frozenset()


@needs_torchcodec
def test_resized_frames_of_a_real_clip_are_equal():
    path, shape = real_clip("pliers/shot_change.mp4"), FrameFormat(size=(224, 224))
    index, expected = StreamIndex.scan(path), linear_frames(path, shape)
    wanted = (3, 70, 140)
    for number, frame in zip(wanted, frames_of(index, shape, TORCHCODEC, wanted), strict=True):
        assert PixelDifference.between(frame, expected[number]).is_equal


@needs_torchcodec
@needs_gpu
def test_gpu_frames_are_the_frames_of_the_index(index):
    expected = linear_frames(index.source.path)
    for number, frame in enumerate(frames_of(index, None, ON_GPU_BY_TORCHCODEC)):
        assert read_number(frame) == number
        assert PixelDifference.between(frame, expected[number]).is_equal


def test_difference_has_mean_and_share_of_far_values():
    grey = np.full((4, 5, 3), 100, np.uint8)
    assert PixelDifference.between(grey, grey) == PixelDifference(mean=0.0, max=0, far_share=0.0)
    assert PixelDifference.between(grey + 2, grey).is_equal
    assert not PixelDifference.between(grey + 3, grey).is_equal
    edge = grey.copy()
    edge[0, 0] = 120
    assert not PixelDifference.between(edge, grey).is_equal
    assert PixelDifference.between(grey, grey[:2]) is None


SEAM = "headrace.decode.gpu.gpu_decoding"


def test_other_code_imports_only_gpu_decoding():
    others = [module for module in house() if not module.path.startswith("decode/gpu/")]
    imported = {
        (module.path, name)
        for module in others
        for _, name in module.imports
        if name.startswith("headrace.decode.gpu.") and not f"{name}.".startswith(f"{SEAM}.")
    }
    assert imported == set()


def test_gpu_decoding_imports_without_pytorch():
    code = f"import sys, {SEAM}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
