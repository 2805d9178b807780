"""Frames that stay where they were decoded: those of `open_device_decoder`, in batches."""

import json
from itertools import islice

import pytest
import torch
from PIL import Image

import headrace
from decode.backends import needs_torchcodec
from decode.gpus import needs_gpu
from headrace.decode.decoding import Decoding
from headrace.errors import BackendError, ConfigError, DecodeError
from headrace.runtime import memory
from headrace.sampling.bursts import Bursts
from headrace.sampling.clips import RandomClips, UniformClips
from headrace.sampling.frames import InOrder, Permutation, Uniform
from headrace.testing.damage import damage_packets
from headrace.testing.synth import KINDS, SynthClip, write_clip
from headrace.training.clip_loader import ClipLoader
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.training.loader import FrameLoader
from training.decoded_there import KEPT, LEVELS, ON_GPU, DecodedThere, apart
from training.videos import SIZE, contents

SAMPLINGS = [InOrder(), Uniform(), Permutation(over="seconds"), Bursts(frames_per_burst=4, lanes=9)]
CLIPS = [RandomClips(num_frames=9, stride=2), UniformClips(num_frames=6, stride=3, num_clips=2)]


@pytest.fixture
def loader(videos, store):
    opened = []

    def open_loader(videos=videos, **options):
        asked = {"size": SIZE, "store": store, "workers": 2, "decoding": KEPT, **options}
        kind, usual = (ClipLoader, 2) if "clips" in asked else (FrameLoader, 9)
        opened.append(kind(videos, **{"batch_size": usual, **asked}))
        return opened[-1]

    yield open_loader
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def there(videos):
    return DecodedThere(videos)


@pytest.fixture
def one_gpu(monkeypatch):
    """PyTorch says that there is one; nothing is asked of it."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_frames_are_those_that_the_device_decoder_leaves_there(loader, there, sampling, workers):
    each = loader(sampling=sampling, workers=workers)
    for batch in [*each, *each]:
        assert (batch.frames.dtype, batch.frames.device.type) == (torch.uint8, "cpu")
        assert batch.frames.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(batch.frames, there.of(batch))


@pytest.mark.parametrize("clips", CLIPS, ids=repr)
def test_clips_are_made_of_them(loader, there, clips):
    each = loader(clips=clips)
    for batch in [*each, *each]:
        assert batch.frames.shape[1:] == (clips.num_frames, 3, *SIZE)
        assert torch.equal(batch.frames, there.of(batch))


@pytest.mark.parametrize("options", [{}, {"clips": CLIPS[0]}], ids=["frames", "clips"])
def test_batches_differ_from_arrays_by_a_few_grey_levels_and_in_nothing_else(loader, options):
    for kept, came_down in zip(loader(**options), loader(decoding=None, **options), strict=True):
        for name, value in came_down.items():
            if name == "frames":
                assert apart(kept.frames, value) <= LEVELS
            else:
                assert torch.equal(value, kept[name]), name


def test_they_are_the_same_whatever_the_plan(loader):
    def two_epochs(**options):
        each = loader(sampling=Permutation(), seed=5, **options)
        return contents(each) + contents(each)

    naive = two_epochs(lookahead=1, workers=1)
    for options in ({"lookahead": 20, "workers": 3}, {"memory_budget": 40 * 3 * SIZE[0] * SIZE[1]}):
        assert two_epochs(**options) == naive, options


@pytest.mark.parametrize("step", [0, 1, 7])
def test_the_rest_equals_that_of_an_uninterrupted_run(loader, step):
    uninterrupted = contents(loader())
    begun = loader()
    seen = contents(islice(begun, step))
    resumed = loader(workers=1, lookahead=30)
    resumed.load_state_dict(json.loads(json.dumps(begun.state_dict())))
    assert seen + contents(resumed) == uninterrupted


def test_a_state_goes_on_with_frames_that_come_down(loader):
    whole, begun = [*loader(decoding=None)], loader()
    seen = [*islice(begun, 3)]
    resumed = loader(decoding=None)
    resumed.load_state_dict(begun.state_dict())
    for found, expected in zip([*seen, *resumed], whole, strict=True):
        assert torch.equal(found.index, expected.index)
        assert apart(found.frames, expected.frames) <= LEVELS


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A good video, and one whose third GOP is damaged."""
    folder = tmp_path_factory.mktemp("damaged")
    clip = SynthClip(num_frames=40, size=(64, 96), gop=8, b_frames=2)
    good = write_clip(folder / "good", clip)
    return [good, damage_packets(good, folder / "bad.mp4", ordinals=[20, 21, 22])]


def test_a_damaged_frame_is_named(loader, damaged):
    with pytest.raises(DecodeError, match=r"bad\.mp4"):
        list(loader(damaged))


@pytest.mark.parametrize("options", [{}, {"clips": CLIPS[0]}], ids=["frames", "clips"])
@pytest.mark.parametrize("on_error", ["skip", "conceal"])
def test_bad_frames_are_replaced_or_concealed_as_for_arrays(loader, damaged, on_error, options):
    asked = {"on_error": on_error, **options}
    kept, came_down = loader(damaged, **asked), loader(damaged, decoding=None, **asked)
    is_concealed = False
    for _ in range(2):
        for found, expected in zip(kept, came_down, strict=True):
            for name in ("video", "index", "is_concealed"):
                assert torch.equal(found[name], expected[name]), name
            assert apart(found.frames, expected.frames) <= LEVELS
            is_concealed |= bool(found.is_concealed.any())
    assert is_concealed == (on_error == "conceal")
    assert {loss.source for loss in kept.quarantined} <= {str(damaged[1])}
    assert bool(kept.quarantined) == (on_error == "skip")
    replaced = kept.statistics.samples_substituted
    assert replaced == came_down.statistics.samples_substituted
    assert (replaced > 0) == (on_error == "skip")


def test_substitutes_are_decoded_there_too(loader, damaged):
    """With a narrow plan they are decoded by the thread that takes batches."""
    there = DecodedThere(damaged[:1])
    for batch in loader(damaged, on_error="skip", lookahead=1, workers=1):
        good = batch.video == 0
        found = batch.frames[good]
        expected = there.frames[0][batch.index[good].numpy()]
        assert torch.equal(found, torch.from_numpy(expected).movedim(-1, -3))


def test_no_array_is_held_beside_them(loader, monkeypatch):
    def refuse(size):
        raise AssertionError(f"memory for arrays of {size} bytes")

    monkeypatch.setattr(memory, "_memory", refuse)
    assert len([*loader()]) > 1
    with pytest.raises(AssertionError, match="memory for arrays"):
        list(loader(decoding=None))


def test_a_batch_is_the_tensor_that_was_filled_and_the_callers_own(loader):
    first, second = islice(loader(), 2)
    before = second.frames.clone()
    first.frames.zero_()
    assert torch.equal(second.frames, before)
    assert first.frames.untyped_storage().nbytes() == first.frames.numel()


def test_transforms_are_given_them(loader):
    each = loader(
        transform=lambda frame: frame.float().mean((-1, -2)), batch_transform=lambda all_: all_ * 2
    )
    plain = next(iter(loader()))
    assert torch.equal(next(iter(each)).frames, plain.frames.float().mean((-1, -2)) * 2)


def test_the_budget_counts_them(loader):
    each = loader(memory_budget=60 * 3 * SIZE[0] * SIZE[1])
    list(each)
    assert 0 < each.statistics.most_held_bytes <= 60 * 3 * SIZE[0] * SIZE[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "uint16"}, r"as uint16; there they come as uint8: leave keeps_on_device out"),
        ({"hold": "yuv420"}, r"as yuv420; there they come as rgb: leave keeps_on_device out"),
    ],
    ids=["uint16", "yuv420"],
)
def test_what_only_the_cpu_makes_is_refused_when_a_loader_opens(loader, options, words):
    with pytest.raises(BackendError, match=words):
        loader(**options)


@needs_torchcodec
def test_a_backend_that_gives_arrays_is_refused_when_a_loader_opens(loader):
    with pytest.raises(BackendError, match=r"torchcodec gives arrays; leave the backend out"):
        loader(decoding=Decoding(backend="torchcodec", keeps_on_device=True))


def test_video_that_does_not_become_rgb_there_is_refused_when_a_loader_opens(loader, tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["odd_size_444"])
    for on_error in ("raise", "skip"):
        with pytest.raises(BackendError, match=r"stored as yuv444p; .* leave keeps_on_device out"):
            loader([path], on_error=on_error)


def test_video_that_gpus_do_not_decode_is_refused_when_a_loader_opens(loader, tmp_path, one_gpu):
    path = write_clip(tmp_path / "clip", KINDS["mjpeg"])
    with pytest.raises(BackendError, match=r"GPU 0 was asked for to decode .* mjpeg"):
        loader([path], decoding=ON_GPU)


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "brought down"])
def test_what_no_gpu_decodes_is_refused_when_a_loader_opens_wherever_frames_go(
    loader, tmp_path, one_gpu, keeps
):
    """Before anything is decoded; also the pictures that the CPU makes into tensors."""
    decoding = Decoding(device="cuda:0", keeps_on_device=keeps)
    odd = write_clip(tmp_path / "odd", KINDS["odd_size"])
    with pytest.raises(BackendError, match=r"vp9 in yuv420p, 75x53; .* of even sides"):
        loader([odd], decoding=decoding)
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        Image.new("RGB", (64, 48)).save(tmp_path / "pictures" / f"{number}.jpg", subsampling=2)
    pictures = headrace.ImageSequence(tmp_path / "pictures", rate=10)
    with pytest.raises(BackendError, match=r"pictures in order .mjpeg., not video: .* on the CPU"):
        loader([pictures], decoding=decoding)
    batch = next(iter(loader([pictures], batch_size=3)))
    assert tuple(batch.frames.shape) == (3, 3, *SIZE)


def test_frames_of_odd_sides_are_near_those_of_the_cpu(loader, tmp_path):
    """On the CPU, where no row or column of colour is missing."""
    odd = [write_clip(tmp_path / "odd", KINDS["odd_size"])]
    kept, arrays = (
        next(iter(loader(odd, size=None, decoding=decoding))) for decoding in (KEPT, Decoding())
    )
    assert tuple(kept.frames.shape[2:]) == (75, 53)
    assert (kept.frames.int() - arrays.frames.int()).abs().max() <= 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pin_memory": True}, r"pin_memory=True .* stay on cuda:0.* leave pin_memory out"),
        ({"device": "cpu"}, r"device='cpu' .* stay on cuda:0; leave device out"),
    ],
)
def test_batches_of_a_gpu_are_not_brought_down_without_a_word(loader, one_gpu, options, words):
    with pytest.raises(ConfigError, match=words):
        loader(decoding=ON_GPU, **options)


def test_batches_are_not_copied_to_another_device_without_a_word(loader, one_gpu):
    with pytest.raises(ConfigError, match=r"device='cuda' .* stay on cpu; leave device out"):
        loader(device="cuda")
    kept = next(iter(loader(device="cpu")))
    assert kept.frames.device.type == "cpu"


def test_a_gpu_that_is_not_here_is_refused_when_a_loader_opens(loader):
    kept = Decoding(device="cuda:99", keeps_on_device=True)
    with pytest.raises(BackendError, match=r"decoding on GPU 99 "):
        loader(decoding=kept)


@pytest.mark.parametrize("decoding", [KEPT, ON_GPU], ids=["cpu", "cuda"])
def test_datasets_whose_items_go_through_workers_refuse_them(videos, store, one_gpu, decoding):
    words = r"dataset were to stay on \S+ .* take FrameLoader or ClipLoader"
    with pytest.raises(BackendError, match=words):
        FrameDataset(videos, SIZE, decoding=decoding, store=store)
    with pytest.raises(BackendError, match=words):
        VideoDataset(videos, 4, decoding=decoding, store=store)


@needs_gpu
@pytest.mark.parametrize("options", [{}, {"clips": CLIPS[0]}], ids=["frames", "clips"])
def test_frames_of_the_gpu_that_stay_are_those_made_on_the_cpu(loader, options):
    """All are kept until the last has come; and after one epoch nothing is brought down."""
    each = loader(decoding=ON_GPU, workers=1, **options)
    kept = [*each]
    for expected, found in zip(loader(**options), kept, strict=True):
        assert str(found.frames.device) == "cuda:0"
        assert torch.equal(found.index, expected.index)
        assert apart(found.frames, expected.frames) <= 1
    before = each.decoding.brought_down_bytes
    assert before > 0  # a keyframe of each decoder, held against the CPU's
    assert list(each)
    assert each.decoding.brought_down_bytes == before


@needs_gpu
def test_frames_of_the_gpu_that_stay_are_right_on_a_stream_of_ones_own(loader):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        sums = [batch.frames.sum((-1, -2), dtype=torch.int64) for batch in loader(decoding=ON_GPU)]
    stream.synchronize()
    for found, batch in zip(sums, loader(), strict=True):
        expected = batch.frames.sum((-1, -2), dtype=torch.int64)
        assert apart(found, expected) <= SIZE[0] * SIZE[1]
