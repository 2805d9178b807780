"""PyNvVideoCodec gives the frames of our index, or an error that says why it does not.

The library is played by FFmpeg on the CPU: our reading of its interface, which no GPU has
confirmed. Tests that need a GPU run the library itself.
"""

import random
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
import torch

from decode import pynvvideocodec_played as played
from decode.gpus import needs_gpu, needs_no_gpu, want_backend_of_gpu
from decode.pynvvideocodec_played import plays
from decode.stand_in import SHAPES
from forked import in_a_fork
from headrace import FrameLoader
from headrace.decode import open as opening
from headrace.decode.decoding import Decoding
from headrace.decode.gpu_frames import GpuFrames
from headrace.decode.open import capabilities_of, open_decoder, open_device_decoder, usable_backends
from headrace.decode.protocol import DecodeJob
from headrace.errors import BackendError, ConfigError
from headrace.runtime import forks
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.video.codec import PlainCodec, new_codec, packets_of
from headrace.video.container import open_container
from headrace.video.planes import digest_of
from headrace.video.stream_index import StreamIndex

ON_GPU = Decoding.named("pynvvideocodec:cuda:0")
KEPT = replace(ON_GPU, keeps_on_device=True)
DECODED = (
    *("h264", "h264_b_frames", "h264_b_pyramid", "h264_open_gop", "hevc", "hevc_open_gop"),
    *("hevc_10_bit", "rotated_90", "bt709_full", "preroll", "vfr_mkv"),
)


@pytest.fixture
def scanned(tmp_path):
    """Return a function: name of a kind -> the index of its clip."""
    return lambda kind: StreamIndex.scan(write_clip(tmp_path / kind, KINDS[kind]))


@pytest.fixture
def made(monkeypatch):
    """Have the library played; give how each of its decoders was made."""
    return plays(monkeypatch)


def frames_of(index, shape=None, decoding=ON_GPU):
    wanted = DecodeJob(tuple(range(len(index))), goes_on=False)
    with closing(open_decoder(index, shape, decoding)) as decoder:
        return [frame for _, frame in decoder.run(wanted)]


def tensors_of(index, shape, decoding):
    wanted = DecodeJob(tuple(range(len(index))), goes_on=False)
    with closing(open_device_decoder(index, shape, decoding)) as decoder:
        return [frame for _, frame in decoder.run(wanted)]


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", DECODED)
def test_frames_that_come_down_are_those_of_the_cpu(scanned, kind, shape):
    index = scanned(kind)
    assert np.array_equal(frames_of(index, shape), frames_of(index, shape, Decoding()))


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("kind", DECODED)
def test_frames_that_stay_become_the_tensors_of_the_cpu(scanned, kind, monkeypatch):
    index = scanned(kind)
    expected = tensors_of(index, None, Decoding(keeps_on_device=True))
    monkeypatch.setattr(opening, "device_of", lambda _: "cpu")
    open_one = opening.PyavDecoder
    monkeypatch.setattr(opening, "PyavDecoder", lambda *made: open_one(*made[:2], KEPT, *made[3:]))
    found = tensors_of(index, None, Decoding(keeps_on_device=True))
    assert len(found) == len(index)
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("kind", DECODED)
def test_a_decoder_is_used_again_and_brings_the_right_frames(scanned, made, kind):
    """By seeks, by a decoder that rested, and by another of the same file."""
    index = scanned(kind)
    expected = frames_of(index, None, Decoding())
    with closing(open_decoder(index, None, ON_GPU)) as decoder:
        for number in random.Random(0).sample(range(len(index)), 20):
            [(_, frame)] = decoder.run(DecodeJob((number,), goes_on=number % 2 == 0))
            assert np.array_equal(frame, expected[number])
        assert decoder.counters.seeks > 9
        decoder.rest()
        assert np.array_equal(dict(decoder.run(DecodeJob((7,))))[7], expected[7])
    assert np.array_equal(frames_of(index), expected)
    [how] = made
    assert (how["gpuid"], how["cudastream"]) == (0, played.PlayedStream.handle)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("decoding", [ON_GPU, KEPT], ids=["comes down", "stays"])
@pytest.mark.parametrize("kind", ["h264_b_pyramid", "hevc_10_bit"])
def test_frames_lie_in_memory_of_their_own_and_name_their_packets(scanned, kind, decoding):
    """All are kept until the last has come: the library writes over each of its own."""
    index = scanned(kind)
    container, stream = open_container(index.source)
    with container:
        gpu = GpuFrames(decoding, index)
        by_gpu, by_cpu = gpu.codec(stream, None), PlainCodec(new_codec(stream))
        found, expected = {}, {}
        for ordinal, packet in enumerate(packets_of(container, stream, "clip")):
            expected |= {shown.ordinal: shown.frame for shown in by_cpu.decode(ordinal, packet)[0]}
            found |= {shown.ordinal: shown.frame for shown in by_gpu.decode(ordinal, packet)[0]}
        assert found.keys() == expected.keys() == set(range(len(index)))
        for ordinal, frame in found.items():
            assert digest_of(gpu.planar(frame)) == digest_of(expected[ordinal])
            assert frame.colorspace == expected[ordinal].colorspace
            assert frame.color_range == expected[ordinal].color_range
        gpu.let_rest(by_gpu, is_sound=True)


@pytest.mark.usefixtures("made")
def test_a_loader_delivers_its_frames(tmp_path):
    paths = [write_clip(tmp_path / name, SynthClip(num_frames=24)) for name in ("a", "b", "c")]

    def batches(decoding):
        with FrameLoader(paths, batch_size=5, workers=2, decoding=decoding) as loader:
            return [(batch.index.tolist(), batch.frames) for batch in loader]

    expected, found = batches(Decoding()), batches(ON_GPU)
    assert len(found) == len(expected) > 10
    for (numbers, frames), (others, same) in zip(found, expected, strict=True):
        assert numbers == others
        assert torch.equal(frames, same)


class Sorted(played.PyNvDecoder):
    """Gives the times in order, whatever frames they are of."""

    def Decode(self, packet):  # noqa: N802
        """Return frames whose times are counted up."""
        found = super().Decode(packet)
        for frame in found:
            self.count = getattr(self, "count", -1) + 1
            frame._pts = self.count
        return found


class Twice(played.PyNvDecoder):
    """Gives each frame twice."""

    def Decode(self, packet):  # noqa: N802
        """Return frames twice."""
        return [frame for frame in super().Decode(packet) for _ in range(2)]


class Other(played.PyNvDecoder):
    """Gives other pixels."""

    def _frame(self, place, frame):
        found = super()._frame(place, frame)
        found._picture ^= 1
        return found


class Larger(played.PyNvDecoder):
    """Gives two rows more."""

    def _frame(self, place, frame):
        found = super()._frame(place, frame)
        found._picture = np.concatenate([found._picture, found._picture[:3]])
        return found


class Laid(played.PyNvDecoder):
    """Gives RGB."""

    def _frame(self, place, frame):
        found = super()._frame(place, frame)
        found._picture = np.zeros((96, 128, 3), np.uint8)
        return found


class Refuses(played.PyNvDecoder):
    """Decodes nothing of the kind."""

    def Decode(self, packet):  # noqa: N802
        """Fail."""
        raise played.PyNvVCExceptionUnsupported(
            "HandleVideoSequence : \nError code : 801\nError Type : Codec not supported on this GPU"
        )


class Silent(played.PyNvDecoder):
    """Gives no frame."""

    def Decode(self, packet):  # noqa: N802
        """Return nothing."""
        return []


@pytest.mark.parametrize(
    ("decoder", "words"),
    [
        (
            Sorted,
            r"it gives a frame of packet \d+, which it was not sent, or gave before, or ",
        ),
        (Twice, r"it gives a frame of packet 0, which it was not sent, or gave before"),
        (Other, r"gives other pixels of .* than the CPU"),
        (Larger, r"gives pictures of 128x98 of .*, which begins with 128x96"),
        (Laid, r"and fails: it gives pictures of torch.uint8 \[96, 128, 3\], not rows of NV12"),
        (Refuses, r"and fails: HandleVideoSequence : .* Codec not supported on this GPU;"),
        (Silent, r"gave no frame 0 of .*, which the CPU decodes"),
    ],
)
@pytest.mark.parametrize("kind", ["h264_b_pyramid"])
def test_what_the_library_does_wrong_is_named_and_never_delivered(
    scanned, monkeypatch, kind, decoder, words
):
    """Also by the next job of the same decoder."""
    plays(monkeypatch, decoder)
    with closing(open_decoder(scanned(kind), None, ON_GPU)) as opened:
        for _ in range(2):
            with pytest.raises(
                BackendError, match=rf"^pynvvideocodec on GPU 0 .*{words}.*leave backend out"
            ):
                list(opened.run(DecodeJob(tuple(range(20)))))


def test_decoders_that_failed_are_not_used_again(scanned, made, monkeypatch):
    """One fails to forget a stream, the next one to decode."""
    index = scanned("h264")
    with closing(open_decoder(index, None, ON_GPU)) as opened:
        list(opened.run(DecodeJob((3,))))
        with monkeypatch.context() as failing:
            failing.setattr(played.PyNvDecoder, "Decode", Refuses.Decode)
            with pytest.raises(BackendError, match="Codec not supported"):
                list(opened.run(DecodeJob((30,))))
        assert [number for number, _ in opened.run(DecodeJob((30,)))] == [30]
    assert len(made) == 3


def test_a_decoder_that_cannot_be_made_is_told(scanned, monkeypatch):
    def refuses(_codec):
        raise played.PyNvVCException("PyNvDecoder constructor failed: libnvcuvid.so.1")

    plays(monkeypatch, refuses)
    with pytest.raises(BackendError, match=r"and fails: PyNvDecoder constructor failed.*leave bac"):
        frames_of(scanned("h264"))


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("vp9", "which is vp9 in yuv420p; it is asked for yuv420p, .* in h264, hevc"),
        ("odd_size_444", "h264 in yuv444p"),
        ("annex_b", "its packets do not tell which frames there are"),
        ("ts", "it changes on the way how it is to be decoded"),
    ],
)
def test_what_it_is_not_asked_for_is_refused(scanned, kind, words):
    with pytest.raises(BackendError, match=rf"^pynvvideocodec on GPU 0 .*{words}.*leave backend"):
        open_decoder(scanned(kind), None, ON_GPU)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"height": 75}, "h264 in yuv420p, 75x128; .* of even sides, not interlaced; leave back"),
        ({"is_interlaced": True}, "h264 in yuv420p, interlaced; .* leave backend out"),
    ],
)
def test_odd_sides_and_fields_are_refused(scanned, change, words):
    index = scanned("h264")
    with pytest.raises(BackendError, match=words):
        open_decoder(replace(index, info=replace(index.info, **change)), None, ON_GPU)


def test_the_cpu_is_none_of_its_devices():
    for made in (
        lambda: Decoding(backend="pynvvideocodec"),
        lambda: Decoding.named(ON_GPU.backend),
    ):
        with pytest.raises(ConfigError, match=r"on NVIDIA GPUs only, .* as in pynvvideocodec:cuda"):
            made()


def test_without_the_package_an_error_names_the_extra(scanned, monkeypatch):
    monkeypatch.setitem(sys.modules, "PyNvVideoCodec", None)
    with pytest.raises(BackendError, match=r"cannot be imported .*pip install 'headrace\[pynvvid"):
        open_decoder(scanned("h264"), None, ON_GPU)
    assert "cannot be imported" in usable_backends()["pynvvideocodec"]


@pytest.mark.parametrize(
    "failure",
    [
        "Failed to load NVENC library: libnvidia-encode.so.1: cannot open",
        "Driver version is too old",
    ],
)
def test_a_package_that_does_not_start_here_says_why(tmp_path, monkeypatch, failure):
    """As it does without NVIDIA's driver, or with an old one: no ImportError."""
    folder = tmp_path / "PyNvVideoCodec"
    folder.mkdir()
    (folder / "__init__.py").write_text(f"raise RuntimeError({failure!r} + chr(10) + 'HELP')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "PyNvVideoCodec", raising=False)
    with pytest.raises(BackendError, match=rf"does not start \({failure}\): .* newer driver, or l"):
        capabilities_of(ON_GPU)


@needs_no_gpu
def test_without_a_gpu_nothing_is_decoded_on_the_cpu_instead(scanned, monkeypatch):
    """The library is not asked: where CUDA fails it ends the process."""
    library, made = played.library()
    monkeypatch.setitem(sys.modules, library.__name__, library)
    with pytest.raises(BackendError, match=r"GPU 0 .*CUDA cannot start there: .* leave back"):
        frames_of(scanned("h264"))
    assert made == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_is_told_before_cuda_is_touched(scanned, made, monkeypatch):
    index = scanned("h264")
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: True)

    def is_told():
        with pytest.raises(BackendError, match="forked from one that uses CUDA"):
            frames_of(index)
        return not made

    assert in_a_fork(is_told)


@needs_gpu
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", DECODED)
def test_frames_from_the_gpu_by_the_library_are_those_from_the_cpu(scanned, kind, shape):
    want_backend_of_gpu("pynvvideocodec")
    index = scanned(kind)
    assert np.array_equal(frames_of(index, shape), frames_of(index, shape, Decoding()))


@needs_gpu
@pytest.mark.parametrize("kind", DECODED)
def test_frames_that_stay_on_the_gpu_by_the_library_are_those_of_nvdec(scanned, kind):
    """All are kept until the last has come: none is overwritten by a later one."""
    want_backend_of_gpu("pynvvideocodec")
    index = scanned(kind)
    found = tensors_of(index, None, KEPT)
    by_nvdec = tensors_of(index, None, Decoding(device="cuda:0", keeps_on_device=True))
    assert {str(each.device) for each in found} == {"cuda:0"}
    assert all(map(torch.equal, found, by_nvdec))


@needs_gpu
def test_seeks_of_the_library_from_the_gpu_bring_the_right_frames(scanned):
    want_backend_of_gpu("pynvvideocodec")
    index = scanned("h264_b_pyramid")
    expected = frames_of(index, None, Decoding())
    with closing(open_decoder(index, None, ON_GPU)) as decoder:
        for number in random.Random(0).sample(range(len(index)), 30):
            [(_, frame)] = decoder.run(DecodeJob((number,), goes_on=False))
            assert np.array_equal(frame, expected[number])
