"""GPU backends return the frames of the CPU, or an error; never other frames.

Without a GPU, NVDEC runs on a stand-in for NVIDIA's driver, and FFmpeg plays PyNvVideoCodec by our
reading of its interface, which no GPU has confirmed. Tests that need a GPU run both.
"""

import random
import re
import sys
from contextlib import closing, nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from av.packet import Packet

from decode import pynvvideocodec_played as played
from decode import stand_in
from decode.backends import needs_torchcodec
from decode.gpus import needs_gpu, needs_no_gpu, want_backend_of_gpu
from decode.kit import frames_of, run_apart
from decode.pictures_made import semiplanar
from decode.pynvvideocodec_played import plays
from decode.stand_in import SHAPES
from forked import in_a_fork
from headrace import BackendError, DecodeCounters, DecodeJob, FrameLoader
from headrace.decode import open_decoder as opening
from headrace.decode.converter import ArrayConverter
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.frame_outputs import device_memory
from headrace.decode.gpu import nvdec
from headrace.decode.gpu.gpu_decoding import stream_codecs
from headrace.decode.gpu.gpu_frames import CodecPool
from headrace.decode.open_decoder import capabilities_of, open_decoder
from headrace.runtime import fork_safety as forks
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.codec import DecodedFrame, FfmpegCodec, new_codec, packets_of
from headrace.video.container import open_container
from headrace.video.content_digest import digest_of
from headrace.video.frame_format import Orientation
from media import read_frames
from tests.kit.old_pyav import needs_full_pyav

pytestmark = needs_full_pyav

NVDEC = DecoderConfig.on_gpu(0)
PYNVVIDEOCODEC = DecoderConfig.parse("pynvvideocodec:cuda:0")
TORCHCODEC = DecoderConfig.parse("torchcodec:cuda:0")
KEPT, KEPT_BY_NVDEC = (replace(way, keeps_on_device=True) for way in (PYNVVIDEOCODEC, NVDEC))
KEPT_ON_CPU = DecoderConfig(keeps_on_device=True)
DECODED = (
    *("h264", "h264_b_frames", "h264_b_pyramid", "h264_open_gop", "hevc", "hevc_open_gop"),
    *("hevc_10_bit", "rotated_90", "bt709_full", "preroll", "vfr_mkv"),
)
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@pytest.fixture
def made(monkeypatch):
    """Play the library; return the arguments of each of its decoders."""
    return plays(monkeypatch)


@shapes
@pytest.mark.parametrize(
    "kind", ["h264_b_frames", "bt709_full", "hevc_10_bit", "bt2020", "odd_size", "vp8"]
)
def test_semiplanar_frames_become_the_cpus(scanned, kind, shape):
    index = scanned(kind)
    gpu = stream_codecs(NVDEC, index, DecodeCounters())
    for frame in read_frames(index.source.path)[:4]:
        expected, found = (
            ArrayConverter(shape, Orientation(), "clip").convert(each, None)
            for each in (frame, gpu.to_planar(semiplanar(frame)))
        )
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("shape", [SHAPES["small"], SHAPES["small yuv420"]], ids=str)
@pytest.mark.parametrize("kind", DECODED)
@pytest.mark.usefixtures("made")
def test_copied_frames_have_the_cpus_format(scanned, kind, shape):
    index = scanned(kind)
    assert np.array_equal(frames_of(index, shape, PYNVVIDEOCODEC), frames_of(index, shape))


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("kind", DECODED)
def test_kept_frames_become_the_cpus_tensors(scanned, kind, monkeypatch):
    index = scanned(kind)
    expected = frames_of(index, None, KEPT_ON_CPU)
    monkeypatch.setattr(opening, "device_of", lambda _: "cpu")
    open_one = opening.PyavDecoder
    monkeypatch.setattr(opening, "PyavDecoder", lambda *made: open_one(*made[:2], KEPT, *made[3:]))
    assert all(map(torch.equal, frames_of(index, None, KEPT_ON_CPU), expected))


@pytest.mark.parametrize("kind", DECODED)
@pytest.mark.parametrize("where", ["played", "on the gpu"])
def test_a_reused_decoder_returns_the_right_frames(scanned, monkeypatch, kind, where):
    """After seeks, after a rest, and by another decoder of the same file."""
    made = plays(monkeypatch) if where == "played" else want_backend_of_gpu("pynvvideocodec")
    index = scanned(kind)
    expected = frames_of(index)
    with closing(open_decoder(index, None, PYNVVIDEOCODEC)) as decoder:
        for number in random.Random(0).sample(range(len(index)), 20):
            [(_, frame)] = decoder.run(DecodeJob((number,), goes_on=number % 2 == 0))
            assert np.array_equal(frame, expected[number])
        assert decoder.counters.seeks > 9
        decoder.rest()
        assert np.array_equal(dict(decoder.run(DecodeJob((7,))))[7], expected[7])
    assert np.array_equal(frames_of(index, None, PYNVVIDEOCODEC), expected)
    for how in made or ():
        assert (how["gpuid"], how["cudastream"]) == (0, played.PlayedStream.handle)
    assert made is None or len(made) == 1


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("decoding", [PYNVVIDEOCODEC, KEPT], ids=["comes down", "stays"])
@pytest.mark.parametrize("kind", ["h264_b_pyramid", "hevc_10_bit"])
def test_frames_have_their_own_memory_and_packet_index(scanned, kind, decoding):
    """All frames are kept until the last one: the library overwrites its own memory."""
    index = scanned(kind)
    container, stream = open_container(index.source)
    with container:
        gpu = stream_codecs(decoding, index, DecodeCounters())
        by_gpu, by_cpu = gpu.acquire_codec(stream, None), FfmpegCodec(new_codec(stream))
        found, expected = {}, {}
        for packet_index, packet in enumerate(packets_of(container, stream, "clip")):
            for codec, frames in ((by_cpu, expected), (by_gpu, found)):
                frames |= dict(codec.decode(packet_index, packet).shown)
        assert found.keys() == expected.keys() == set(range(len(index)))
        for packet_index, frame in found.items():
            assert digest_of(gpu.to_planar(frame)) == digest_of(expected[packet_index])
            assert frame.colorspace == expected[packet_index].colorspace
            assert frame.color_range == expected[packet_index].color_range
        gpu.release_codec(by_gpu, is_working=True)


@pytest.mark.usefixtures("made")
def test_a_loader_delivers_its_frames(tmp_path):
    paths = [write_clip(tmp_path / name, SynthClip(num_frames=24)) for name in ("a", "b", "c")]

    def batches(decoding):
        with FrameLoader(paths, batch_size=5, num_threads=2, decoding=decoding) as loader:
            return [(batch.index.tolist(), batch.frames) for batch in loader]

    expected, found = batches(ON_CPU), batches(PYNVVIDEOCODEC)
    assert len(found) == len(expected) > 10
    for (numbers, frames), (others, same) in zip(found, expected, strict=True):
        assert numbers == others
        assert torch.equal(frames, same)


def decodes(decode):
    """Return a decoder that changes the frames of each packet by `decode`."""

    class Wrong(played.PyNvDecoder):
        count = -1

        def Decode(self, packet):  # noqa: N802
            """Return the changed frames."""
            return decode(self, super().Decode(packet))

    return Wrong


def draws(change):
    """Return a decoder that changes each picture."""

    def decode(_, frames):
        for frame in frames:
            frame._picture = change(frame._picture)
        return frames

    return decodes(decode)


def in_order(self, frames):
    """Number the frames in their order of output."""
    for frame in frames:
        self.count += 1
        frame._pts = self.count
    return frames


def refuses(*_):
    message = (
        "HandleVideoSequence : \nError code : 801\nError Type : Codec not supported on this GPU"
    )
    raise played.PyNvVCExceptionUnsupported(message)


def is_not_made(_codec):
    raise played.PyNvVCException("PyNvDecoder constructor failed: libnvcuvid.so.1")


@pytest.mark.parametrize(
    ("decoder", "words"),
    [
        (decodes(in_order), r"a frame of packet \d+, which was not sent, or was returned before"),
        (decodes(lambda _, frames: [frame for frame in frames for _ in range(2)]), "of packet 0, "),
        (draws(lambda picture: picture ^ 1), r"outputs other pixels of .* than the CPU"),
        (
            draws(lambda rows: np.concatenate([rows, rows[:3]])),
            "frames of 128x98 for .*, .* 128x96",
        ),
        (draws(lambda _: np.zeros((6, 8, 3), np.uint8)), r"torch.uint8 \[6, 8, 3\], not rows of N"),
        (decodes(refuses), r"it fails: HandleVideoSequence : .* Codec not supported on this GPU;"),
        (decodes(lambda *_: []), r"returned no frame 0 of .*, which the CPU decodes"),
        (is_not_made, r"it fails: PyNvDecoder constructor failed"),
    ],
)
def test_wrong_library_output_raises(scanned, monkeypatch, decoder, words):
    """Also by the next job of the same decoder."""
    plays(monkeypatch, decoder)
    message = rf"^pynvvideocodec on GPU 0 .*{words}.*leave backend out"
    with closing(open_decoder(scanned("h264_b_pyramid"), None, PYNVVIDEOCODEC)) as opened:
        for _ in range(2):
            with pytest.raises(BackendError, match=message):
                list(opened.run(DecodeJob(tuple(range(20)))))


def test_failed_decoders_are_not_reused(index, made, monkeypatch):
    """One fails at the end of its stream, the next one at a packet."""
    with closing(open_decoder(index, None, PYNVVIDEOCODEC)) as opened:
        list(opened.run(DecodeJob((3,))))
        with monkeypatch.context() as failing:
            failing.setattr(played.PyNvDecoder, "Decode", refuses)
            with pytest.raises(BackendError, match="Codec not supported"):
                list(opened.run(DecodeJob((30,))))
        assert [number for number, _ in opened.run(DecodeJob((30,)))] == [30]
    assert len(made) == 3


@pytest.mark.parametrize(
    "failure", ["Failed to load NVENC library: libnvidia-encode.so.1", "Driver version is too old"]
)
def test_an_unimportable_package_is_explained(tmp_path, monkeypatch, failure):
    """As it does without NVIDIA's driver, or with an old one: no ImportError."""
    folder = tmp_path / "PyNvVideoCodec"
    folder.mkdir()
    (folder / "__init__.py").write_text(f"raise RuntimeError({failure!r} + chr(10) + 'HELP')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "PyNvVideoCodec", raising=False)
    with pytest.raises(BackendError, match=rf"imported \({failure}\): .* newer driver, or l"):
        capabilities_of(PYNVVIDEOCODEC)


@needs_no_gpu
@pytest.mark.parametrize(
    ("decoding", "words"),
    [
        (NVDEC, "GPU 0 .*CUDA cannot start: .* driver .*leave gpu out"),
        (KEPT_BY_NVDEC, "GPU 0 .*CUDA cannot start"),
        (PYNVVIDEOCODEC, "GPU 0 .*CUDA cannot start: .* leave back"),
        pytest.param(TORCHCODEC, ".*CUDA cannot start: .*leave devi", marks=needs_torchcodec),
    ],
)
def test_a_missing_gpu_raises_without_cpu_fallback(index, monkeypatch, decoding, words):
    """PyNvVideoCodec is not called: on a CUDA failure it ends the process."""
    library, made = played.library()
    monkeypatch.setitem(sys.modules, library.__name__, library)
    with pytest.raises(BackendError, match=words):
        frames_of(index, None, decoding)
    assert made == []


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "use_cuda",
    [
        lambda index: frames_of(index, None, PYNVVIDEOCODEC),
        pytest.param(lambda index: frames_of(index, None, TORCHCODEC), marks=needs_torchcodec),
        lambda _: device_memory((2, 3), "cuda:0"),
    ],
    ids=["pynvvideocodec", "torchcodec", "memory"],
)
def test_a_forked_process_is_refused_before_cuda_starts(index, made, monkeypatch, use_cuda):
    monkeypatch.setattr(forks, "_torch_has_cuda", lambda: True)

    def is_refused():
        with pytest.raises(BackendError, match="forked from one that uses CUDA"):
            use_cuda(index)
        return not made and device_memory((2, 3), "cpu").shape == (2, 3)

    assert in_a_fork(is_refused)


KINDS_OF_STAND_IN = (
    *("h264_b_pyramid", "h264_open_gop", "h264_intra_refresh", "hevc", "hevc_open_gop"),
    *("hevc_10_bit", "vp8", "vp9_hidden", "mpeg4", "rotated_90", "bt709_full", "ts", "annex_b"),
)
NO_FRAME = r"BackendError: GPU 0 returned no frame \d+ of .*, which the CPU decodes.*leave gpu out"
OTHER_SIZE = "BackendError: GPU 0 outputs frames of {} for .*, which starts with {}: .* gpu out"
OTHER_PIXELS = "BackendError: GPU 0 outputs other pixels of .* than the CPU; leave gpu out"


@pytest.fixture(scope="module")
def on_stand_in(tmp_path_factory):
    """Comparison of the stand-in's frames with the CPU's: the output of stand_in.parity."""
    if not stand_in.CAN_BE_BUILT:
        pytest.skip("gcc and the headers of NVIDIA's codecs are not here: libffmpeg-nvenc-dev")
    driver, work = (tmp_path_factory.mktemp(name) for name in ("driver", "work"))
    stand_in.build(driver)
    environment = {"LD_LIBRARY_PATH": str(driver), "STAND_IN_PICTURES": str(work / "pictures")}
    return run_apart("decode.stand_in.parity", work, *KINDS_OF_STAND_IN, **environment)


@pytest.mark.parametrize(
    "what",
    [
        *(f"{kind}, {how}" for kind in KINDS_OF_STAND_IN for how in (*SHAPES, "kept")),
        *("CameraLoader", "CameraStreamDataset, spawned"),
    ],
)
def test_stand_in_frames_equal_the_cpus_in_order_and_after_seeks(on_stand_in, what):
    assert on_stand_in[what] == "equal"


def test_nvdec_and_the_cpu_share_the_work_of_a_loader(on_stand_in):
    found = on_stand_in["auto"]
    assert found["equal"] is True
    assert found["jobs"]["cpu"]
    assert found["jobs"]["cuda:0"]
    [(file, reason)] = found["on_cpu"].items()
    assert "unknown" in file
    assert "GPU 0 returned no frame" in reason


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("unknown", [NO_FRAME] * 2),
        ("damaged", [r"DecodeError: frame \d of .* nor 3 more .*the file is damaged there"] * 2),
        ("cropped", [OTHER_SIZE.format("192x64", "128x64")] * 2),
        ("resized", ["equal", *[OTHER_SIZE.format("64x72", "64x48")] * 2]),
        ("wrong", [OTHER_PIXELS] * 2),
        ("broken", ["equal", NO_FRAME, "equal"]),
        ("exhausted", ["equal", NO_FRAME, "equal"]),
        ("reused", ["equal"] * 6),
        ("in_the_way", ["equal"] * 2),
    ],
)
def test_wrong_gpu_output_raises(on_stand_in, failure, expected):
    """Also by the next job of the same decoder; and a GPU that works again is used again."""
    for message, words in zip(on_stand_in[failure], expected, strict=True):
        assert re.match(words, message)


def test_a_codec_with_other_parameter_sets_is_not_reused(scanned, monkeypatch):
    """Sets in a first packet outlast a flush, and another file may have only a header."""

    def opened(_, stream):
        codec = new_codec(stream)
        codec.open()
        return codec

    monkeypatch.setattr(nvdec.Nvdec, "_new_codec", opened)
    monkeypatch.setattr(nvdec, "IDLE_CODECS", CodecPool())
    index = scanned("h264")
    codecs = nvdec.Nvdec(NVDEC, index, DecodeCounters())
    container, stream = open_container(index.source)
    with container:
        plain = next(packets_of(container, stream, "clip"))
        sets = b"\x00\x00\x00\x04\x68\xce\x3c\x80"
        first = codecs.acquire_codec(stream, Packet(sets + bytes(plain)))
        codecs.release_codec(first, is_working=True)
        second = codecs.acquire_codec(stream, plain)
        codecs.release_codec(second, is_working=True)
        assert second.context is not first.context
        assert codecs.acquire_codec(stream, plain).context is second.context


@pytest.mark.parametrize(
    ("driver", "more", "words"),
    [
        # PyAV would decode on the CPU, or on another kind of GPU, without an error.
        (None, {}, "FFmpeg has no h264 decoder on NVIDIA GPUs"),
        (None, {"hwdevices_available": lambda: ["drm"]}, "built without CUDA; install PyAV as a w"),
        ("libnvcuvid.so.0", {}, r"driver has no decoder \(libnvcuvid.so.0 .*video"),
    ],
)
def test_an_ffmpeg_or_a_driver_without_nvdec_is_refused(index, monkeypatch, driver, more, words):
    changes = {"torch_cuda_context": nullcontext, "_DRIVER_LIBRARY": driver, **more}
    if driver is None:  # any existing library
        changes["new_codec"] = lambda stream, _: stream.codec_context
    for name, value in changes.items():
        monkeypatch.setattr(nvdec, name, value)
    with pytest.raises(BackendError, match=words):
        frames_of(index, None, NVDEC)


def test_bytes_copied_from_the_gpu_are_counted(index):
    frames = list(read_frames(str(index.source)))[:2]
    shown = [DecodedFrame(number, frame) for number, frame in enumerate(frames)]
    counters = DecodeCounters(opens=1)
    stream_codecs(NVDEC, index, counters).check(0, None, shown)
    brought_down = sum(plane.buffer_size for frame in frames for plane in frame.planes)
    assert counters == DecodeCounters(opens=1, brought_down_bytes=brought_down)


@needs_gpu
@shapes
@pytest.mark.parametrize(
    ("decoding", "kind"),
    [*((PYNVVIDEOCODEC, kind) for kind in DECODED), *((NVDEC, kind) for kind in (*DECODED, "vp9"))],
)
def test_gpu_frames_equal_cpu_frames(scanned, decoding, kind, shape):
    want_backend_of_gpu(decoding.backend)
    index = scanned(kind)
    assert np.array_equal(frames_of(index, shape, decoding), frames_of(index, shape))


@needs_gpu
@pytest.mark.parametrize("kind", DECODED)
def test_kept_gpu_frames_of_the_library_equal_nvdecs(scanned, kind):
    """All frames are kept until the last one: no frame is overwritten by a later one."""
    want_backend_of_gpu("pynvvideocodec")
    index = scanned(kind)
    found = frames_of(index, None, KEPT)
    assert {str(each.device) for each in found} == {"cuda:0"}
    assert all(map(torch.equal, found, frames_of(index, None, KEPT_BY_NVDEC)))
