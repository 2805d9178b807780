"""Frames kept on the device equal the copied ones, as tensors, for every reader."""

import sys
from contextlib import closing

import numpy as np
import pytest
import torch

import headrace
from decode.gpus import NO_GPU, needs_gpu, needs_no_gpu, want_backend_of_gpu
from decode.kit import frames_of, run
from decode.linear import linear_frames
from headrace import Crop, DecodeJob, DecoderConfig, FrameFormat, FrameReader, StreamIndex
from headrace.decode.frame_outputs import device_memory
from headrace.decode.gpu.nvdec import Nvdec
from headrace.decode.open_decoder import open_decoder, open_device_decoder
from headrace.decode.protocol import DecodeCounters, decode_stacked
from headrace.errors import BackendError, DecodeError
from headrace.runtime import buffer_pool as memory
from headrace.testing import damage
from headrace.testing.synth import SynthClip, read_number
from headrace.video.codec import FfmpegCodec, new_codec, packets_of
from headrace.video.container import open_container
from media import read_frames
from tests.kit.old_pyav import needs_full_pyav

pytestmark = needs_full_pyav

ON_CPU, ON_GPU = (DecoderConfig(device=each, keeps_on_device=True) for each in ("cpu", "cuda:0"))


SHAPES = {
    "as it is": FrameFormat(),
    "small": FrameFormat(size=(32, 48)),
    "crop, bilinear": FrameFormat(
        size=(20, 20), crop=Crop(top=2, left=1, height=41, width=30), interpolation="bilinear"
    ),
}


def apart(found, expected):
    return np.abs(np.asarray(found, int) - np.asarray(expected, int)).max()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        *[("h264_b_pyramid", shape) for shape in SHAPES.values()],
        *[(kind, SHAPES["small"]) for kind in ("hevc_10_bit", "rotated_90", "bt709_full")],
    ],
)
def test_cpu_tensors_equal_the_arrays(scanned, kind, shape):
    index = scanned(kind)
    found = frames_of(index, shape, ON_CPU)
    assert {(each.dtype, each.device.type) for each in found} == {(torch.uint8, "cpu")}
    assert apart(found, linear_frames(index.source.path, shape)) <= 5


def test_tensors_are_right_after_seeks_and_stacked(scanned):
    index = scanned("h264_open_gop")
    with closing(open_device_decoder(index, decoding=ON_CPU)) as decoder:
        frames, _ = decode_stacked(decoder, [DecodeJob((41, 43)), DecodeJob((3, 4, 20))])
    assert isinstance(frames, torch.Tensor)
    assert [read_number(each.numpy()) for each in frames] == [41, 43, 3, 4, 20]


def test_frames_are_written_into_a_given_tensor(scanned):
    index = scanned("h264")
    out = torch.zeros(2, 32, 48, 3, dtype=torch.uint8)
    with closing(open_device_decoder(index, SHAPES["small"], ON_CPU)) as decoder:
        frames = dict(decoder.run(DecodeJob((5, 9), goes_on=False), out))
    assert torch.equal(out, torch.stack(frames_of(index, SHAPES["small"], ON_CPU, wanted=(5, 9))))
    assert frames[9].data_ptr() == out[1].data_ptr()


def test_damaged_tensors_are_listed_or_concealed_like_arrays(written, tmp_path):
    bad = damage.damage_packets(
        written("h264_b_frames"), tmp_path / "bad.mp4", ordinals=[13, 15], seed=1
    )
    index = StreamIndex.scan(bad)
    outcomes = []
    for opened in (open_decoder(index), open_device_decoder(index, decoding=ON_CPU)):
        with closing(opened) as decoder:
            _, missing = run(decoder, range(len(index)))
            shown, _ = run(decoder, range(len(index)), conceals=True)
            assert sorted(shown) == list(range(len(index)))
            outcomes.append((missing, decoder.concealed))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0]
    assert headrace.load_clip(bad, 12, 8, 1, on_error="conceal", decoding=ON_CPU).is_concealed.any()
    with pytest.raises(DecodeError, match=r"bad\.mp4"):
        headrace.read_clip(bad, 12, 8, 1, decoding=ON_CPU)


def test_kept_frames_are_forwarded_unchanged(scanned):
    index = scanned("h264")
    frame = read_frames(index.source.path)[0]
    assert Nvdec(ON_GPU, index, DecodeCounters()).to_deliverable(frame) is frame


def test_one_keyframe_is_copied_for_the_check(scanned, monkeypatch):
    index, brought_down = scanned("h264_b_pyramid"), []
    gpu = Nvdec(ON_GPU, index, DecodeCounters())
    monkeypatch.setattr(gpu, "to_planar", lambda frame: brought_down.append(frame) or frame)
    container, gpu._stream = open_container(index.source)
    with container:
        codec, came = FfmpegCodec(new_codec(gpu._stream)), 0
        for packet_index, packet in enumerate(packets_of(container, gpu._stream, "clip")):
            shown = codec.decode(packet_index, packet).shown
            gpu.check(packet_index, packet, shown)
            came += len(shown)
    assert came == len(index)
    assert [frame.key_frame for frame in brought_down] == [True]


@needs_gpu
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    "kind", ["h264", "h264_b_pyramid", "hevc", "hevc_10_bit", "vp9", "bt709_full", "rotated_90"]
)
def test_kept_gpu_frames_equal_cpu_tensors(scanned, kind, shape):
    """All frames are kept until the last: no frame is overwritten by a later one."""
    index = scanned(kind)
    found = frames_of(index, shape, ON_GPU)
    assert {str(each.device) for each in found} == {"cuda:0"}
    assert apart([each.cpu() for each in found], frames_of(index, shape, ON_CPU)) <= 1


@needs_gpu
def test_kept_gpu_frames_are_right_on_another_stream(scanned):
    index = scanned("h264_b_pyramid")
    expected = frames_of(index, decoding=ON_CPU)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        found = frames_of(index, decoding=ON_GPU)
    stream.synchronize()
    assert apart([each.cpu() for each in found], expected) <= 1


@needs_gpu
def test_kept_gpu_frames_are_right_after_seeks(scanned):
    index = scanned("hevc_open_gop")
    for wanted in ((41, 43), (3, 4, 20), (44,)):
        found = frames_of(index, decoding=ON_GPU, wanted=wanted)
        assert [read_number(each.cpu().numpy()) for each in found] == list(wanted)


@needs_no_gpu
def test_a_missing_device_is_named():
    with pytest.raises(BackendError, match=r"\[2, 3\] on cuda:0: .* keeps_on_device"):
        device_memory((2, 3), "cuda:0")


@needs_gpu
def test_a_gpu_out_of_memory_is_named():
    with pytest.raises(BackendError, match=r"on cuda:0: .* give a smaller memory_budget"):
        device_memory((1 << 50,), "cuda:0")


@needs_no_gpu
@pytest.mark.parametrize(
    ("asked", "outcome"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)]
)
def test_a_required_gpu_is_not_skipped(monkeypatch, asked, outcome):
    monkeypatch.setenv("REQUIRE_GPU", asked)

    @needs_gpu
    def test(number):
        raise AssertionError("it ran without a GPU")

    with pytest.raises(outcome, match=NO_GPU):
        want_backend_of_gpu("pynvvideocodec")
    if asked:
        with pytest.raises(outcome, match=f"{NO_GPU}, and REQUIRE_GPU=1"):
            test(number=1)
    else:
        [mark] = test.pytestmark
        assert (mark.name, mark.kwargs) == ("skip", {"reason": NO_GPU})


def test_a_missing_backend_is_skipped_by_name(monkeypatch):
    monkeypatch.setenv("REQUIRE_GPU", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "PyNvVideoCodec", None)
    with pytest.raises(pytest.skip.Exception, match=r"pip install 'headrace\[pynvvideocodec\]'"):
        want_backend_of_gpu("pynvvideocodec")


SIZE = (32, 48)


READERS = {
    "read_clip": lambda path, how: headrace.read_clip(path, 3, 4, 5, size=SIZE, decoding=how),
    "load_clip": lambda path, how: (
        headrace.load_clip(path, 3, 4, 5, size=SIZE, decoding=how).frames
    ),
    "open": lambda path, how: headrace.open(path, size=SIZE, decoding=how)[3:20:5],
    "read_frames": lambda path, how: torch.cat(
        [
            torch.as_tensor(batch.frames)
            for batch in headrace.read_frames([path], size=SIZE, decoding=how)
        ]
    )[3:20:5],
}


@pytest.fixture(scope="module")
def path(written):
    return written(SynthClip(num_frames=40, size=(64, 96), gop=8, b_frames=2))


@pytest.fixture(scope="module")
def there(path):
    return torch.stack(frames_of(StreamIndex.scan(path), FrameFormat(size=SIZE), ON_CPU))


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_readers_return_the_device_decoders_frames(path, there, read):
    found = read(path, ON_CPU)
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, there[3:20:5])


def test_every_method_of_a_reader_returns_tensors(path, there):
    with headrace.open(path, size=SIZE, decoding=ON_CPU) as video:
        assert torch.equal(video[5], there[5])
        assert torch.equal(video[-1], there[-1])
        assert torch.equal(video[[7, 3, 7]], there[[7, 3, 7]])
        assert torch.equal(torch.stack([*video]), there)
        none = video[[]]
        assert isinstance(none, torch.Tensor)
        assert (none.shape, none.dtype) == ((0, *SIZE, 3), torch.uint8)
        clip = video.get_frames_played_at([0.5, 0.1])
        assert torch.equal(torch.as_tensor(clip.frames), there[clip.index])
        assert clip.pts_seconds.tolist() == sorted(clip.pts_seconds.tolist(), reverse=True)


def test_a_clip_of_tensors_is_a_batch(path, there):
    clip = headrace.load_clip(path, 0, 4, 1, size=SIZE, decoding=ON_CPU)
    batch = headrace.Batch.of_clip(clip)
    assert torch.equal(batch.frames[0], there[:4].movedim(-1, -3))
    assert batch.frames.data_ptr() == torch.as_tensor(clip.frames).data_ptr()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("batch_size", [None, 7])
def test_all_frames_are_read_in_batches(path, there, workers, batch_size, monkeypatch):
    """No array is allocated in addition."""
    monkeypatch.setattr(memory.mmap, "mmap", lambda *_, **__: pytest.fail("memory for arrays"))
    options = {"size": SIZE, "workers": workers, "batch_size": batch_size}
    batches = [*FrameReader([path], decoding=ON_CPU, **options)]
    assert {type(batch.frames) for batch in batches} == {torch.Tensor}
    assert torch.equal(torch.cat([torch.as_tensor(batch.frames) for batch in batches]), there)
    assert np.concatenate([batch.index for batch in batches]).tolist() == [*range(40)]


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("on_error", ["skip", "conceal", "raise"])
def test_damaged_tensors_match_damaged_arrays(path, tmp_path, on_error, batch_size):
    bad = damage.damage_packets(path, tmp_path / "bad.mp4", ordinals=[20, 21])
    options = {"size": SIZE, "batch_size": batch_size, "on_error": on_error}
    outcomes, pictures = [], []
    for decoding in (ON_CPU, DecoderConfig()):
        reader = FrameReader([bad], **options, decoding=decoding)
        batches, error = [], None
        try:
            batches.extend(reader)
        except DecodeError as caught:
            error = str(caught)
        frames = torch.cat([torch.as_tensor(batch.frames) for batch in batches])
        index = np.concatenate([batch.index for batch in batches]).tolist()
        concealed = np.concatenate([batch.is_concealed for batch in batches]).tolist()
        outcomes.append((index, concealed, reader.losses, error))
        pictures.append(frames.int())
    assert outcomes[0] == outcomes[1]
    assert (pictures[0] - pictures[1]).abs().max() <= 5


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_cpu_only_formats_are_refused_at_once(written, read):
    with pytest.raises(BackendError, match=r"stored as yuv444p; .* leave keeps_on_device out"):
        read(written("odd_size_444"), ON_CPU)


@needs_no_gpu
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_missing_gpu_is_an_error_without_cpu_fallback(path, read):
    with pytest.raises(BackendError, match=r"GPU 0 .*CUDA cannot start|allocate .* on cuda:0"):
        read(path, ON_GPU)


@needs_gpu
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_kept_gpu_frames_of_readers_equal_cpu_tensors(path, read):
    found = read(path, ON_GPU)
    assert str(found.device) == "cuda:0"
    assert (found.cpu().int() - read(path, ON_CPU).int()).abs().max() <= 1
