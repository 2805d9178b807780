"""What cannot stay where it was decoded is refused when a loader opens; and what a GPU keeps."""

import numpy as np
import pytest
import torch
from PIL import Image

from decode.backends import needs_torchcodec
from decode.gpus import needs_gpu
from headrace import CameraView, ClipAugment
from headrace.decode.decoding import Decoding
from headrace.errors import BackendError, ConfigError
from headrace.testing.synth import KINDS, write_clip
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.video.camera_layout import CameraLayout
from headrace.video.image_sequence import ImageSequence
from training.cameras.clips import (
    CAMERAS,
    WAYS,
)
from training.kept import KEPT, ON_GPU, apart, pictures
from training.videos import SIZE


def pictured(folder, suffix):
    """Return a layout of one clip of one camera, as pictures."""
    where = folder / "clip" / "front"
    where.mkdir(parents=True)
    for number in range(3):
        picture = np.random.default_rng(number).integers(0, 256, (64, 96, 3), np.uint8)
        Image.fromarray(picture).save(where / f"{number:05d}{suffix}")
    return CameraLayout.of_folders([folder], len, picture_rate=10)


def test_what_does_not_become_rgb_there_is_refused_when_a_loader_opens(kept_loader, tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["odd_size_444"])
    for on_error in ("raise", "skip"):
        with pytest.raises(BackendError, match=r"stored as yuv444p; .* leave keeps_on_device out"):
            kept_loader(files=[path], on_error=on_error)
    words = r"front.* are stored as rgb24; .* leave keeps_on_device out"
    with pytest.raises(BackendError, match=words):
        kept_loader("cameras", pictured(tmp_path / "pictures", ".png"), on_error="mask")


def test_what_gpus_do_not_decode_is_refused_when_a_loader_opens(kept_loader, tmp_path, one_gpu):
    path = write_clip(tmp_path / "clip", KINDS["mjpeg"])
    with pytest.raises(BackendError, match=r"GPU 0 was asked for to decode .* mjpeg"):
        kept_loader(files=[path], decoding=ON_GPU)
    words = r"GPU 0 was asked .*front.* pictures in order .mjpeg., .* leave gpu out"
    with pytest.raises(BackendError, match=words):
        kept_loader("cameras", pictured(tmp_path / "pictures", ".jpg"), decoding=ON_GPU)


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "brought down"])
def test_what_no_gpu_decodes_is_refused_when_a_loader_opens_wherever_frames_go(
    kept_loader, tmp_path, one_gpu, keeps
):
    """Before anything is decoded; also the pictures that the CPU makes into tensors."""
    decoding = Decoding(device="cuda:0", keeps_on_device=keeps)
    odd = write_clip(tmp_path / "odd", KINDS["odd_size"])
    with pytest.raises(BackendError, match=r"vp9 in yuv420p, 75x53; .* of even sides"):
        kept_loader(files=[odd], decoding=decoding)
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        Image.new("RGB", (64, 48)).save(tmp_path / "pictures" / f"{number}.jpg", subsampling=2)
    files = [ImageSequence(tmp_path / "pictures", rate=10)]
    with pytest.raises(BackendError, match=r"pictures in order .mjpeg., not video: .* on the CPU"):
        kept_loader(files=files, decoding=decoding)
    batch = next(iter(kept_loader(files=files, batch_size=3)))
    assert tuple(batch.frames.shape) == (3, 3, *SIZE)


def test_frames_of_odd_sides_are_near_those_of_the_cpu(kept_loader, tmp_path):
    """On the CPU, where no row or column of colour is missing."""
    odd = [write_clip(tmp_path / "odd", KINDS["odd_size"])]
    kept, arrays = (
        next(iter(kept_loader(files=odd, size=None, decoding=each))) for each in (KEPT, Decoding())
    )
    assert tuple(kept.frames.shape[2:]) == (75, 53)
    assert apart(kept.frames, arrays.frames) <= 5


AWAY = Decoding(device="cuda:99", keeps_on_device=True)
BY_TORCHCODEC = Decoding(backend="torchcodec", keeps_on_device=True)
TO_CPU = {"decoding": ON_GPU, "device": "cpu"}
PINNED = {"decoding": ON_GPU, "pin_memory": True}


@pytest.mark.parametrize(
    ("door", "options", "error", "words"),
    [
        ("frames", {"dtype": "uint16"}, BackendError, "as uint16; there they come as uint8: leave"),
        ("frames", {"hold": "yuv420"}, BackendError, "as yuv420; there they come as rgb: leave ke"),
        ("windows", {"hold": "yuv420"}, BackendError, "as yuv420; .* leave keeps_on_device out"),
        ("frames", PINNED, ConfigError, "pin_memory=True .* stay on cuda:0.* leave pin_memory out"),
        ("cameras", PINNED, ConfigError, "pin_memory=True .* stay on cuda:0.* leave pin_mem"),
        ("frames", TO_CPU, ConfigError, "device='cpu' .* stay on cuda:0; leave device out"),
        ("cameras", TO_CPU, ConfigError, "device='cpu' .* stay on cuda:0.* leave keeps_on_dev"),
        ("windows", TO_CPU, ConfigError, "device='cpu' .* stay on cuda:0"),
        ("frames", {"device": "cuda"}, ConfigError, "device='cuda' .* stay on cpu; leave device o"),
        ("frames", {"decoding": AWAY}, BackendError, "decoding on GPU 99 "),
        ("cameras", {"decoding": AWAY}, BackendError, "decoding on GPU 99 "),
        pytest.param(
            *("frames", {"decoding": BY_TORCHCODEC}, BackendError),
            "torchcodec gives arrays; leave the backend out",
            marks=needs_torchcodec,
        ),
    ],
    ids=repr,
)
def test_what_cannot_be_kept_is_refused_when_a_loader_opens(
    kept_loader, one_gpu, door, options, error, words
):
    with pytest.raises(error, match=words):
        kept_loader(door, **options)


def test_batches_of_the_cpu_may_be_asked_for_there(kept_loader, one_gpu):
    assert next(iter(kept_loader(device="cpu"))).frames.device.type == "cpu"


@pytest.mark.parametrize("decoding", [KEPT, ON_GPU], ids=["cpu", "cuda"])
def test_datasets_whose_items_go_through_workers_refuse_them(
    videos, layout, store, one_gpu, decoding
):
    words = r"dataset were to stay on \S+ .* take FrameLoader or ClipLoader"
    with pytest.raises(BackendError, match=words):
        FrameDataset(videos, SIZE, decoding=decoding, store=store)
    with pytest.raises(BackendError, match=words):
        VideoDataset(videos, 4, decoding=decoding, store=store)
    words = rf"were to stay on {decoding.device}, .* CameraLoader .* leave keeps_on_device out"
    with pytest.raises(BackendError, match=words):
        CameraStreamDataset(layout, size=SIZE, decoding=decoding, store=store)


def test_a_dataset_is_told_what_decodes_once_and_in_full_or_by_a_number(layout, store):
    with pytest.raises(ConfigError, match="give decoding or gpu, got both"):
        CameraStreamDataset(layout, size=SIZE, decoding=Decoding(), gpu=99, store=store)
    with pytest.raises(BackendError, match="decoding on GPU 99 "):
        CameraStreamDataset(layout, size=SIZE, decoding=Decoding.on_gpu(99), store=store)


CROPS = {camera: CameraView(resize=0.5, crop=(20, 40 - 4 * k)) for k, camera in enumerate(CAMERAS)}
FRAMED = {"size": None, "view": CROPS, "augment": ClipAugment(flip=0.5)}


@needs_gpu
@pytest.mark.parametrize(
    ("door", "options", "levels"),
    [
        ("frames", {"workers": 1}, 1),
        ("clips", {"workers": 1}, 1),
        ("cameras", {**FRAMED, "ragged": "pad"}, 1),
        ("cameras", {**FRAMED, "ragged": "list"}, 1),
        ("windows", WAYS["plain"], 2),
        ("windows", WAYS["chance"], 2),
    ],
    ids=repr,
)
def test_pictures_of_the_gpu_that_stay_are_those_made_on_the_cpu(
    kept_loader, videos, layout, door, options, levels
):
    """All are kept until the last has come; of frames, after one epoch nothing is brought down."""
    each = kept_loader(door, decoding=ON_GPU, **options)
    kept = [*each]
    for expected, found in zip(kept_loader(door, **options), kept, strict=True):
        files = layout if "clip" in expected else videos
        both = zip(pictures(expected, files), pictures(found, files), strict=True)
        for (*place, right), (*found_place, picture) in both:
            assert str(picture.device) == "cuda:0"
            assert place == found_place
            assert not picture.numel() or apart(picture, right) <= levels
    if door in ("frames", "clips"):
        before = each.decoding.brought_down_bytes
        assert before > 0  # a keyframe of each decoder, held against the CPU's
        assert list(each)
        assert each.decoding.brought_down_bytes == before


@needs_gpu
def test_frames_of_the_gpu_that_stay_are_right_on_a_stream_of_ones_own(kept_loader):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        sums = [
            batch.frames.sum((-1, -2), dtype=torch.int64) for batch in kept_loader(decoding=ON_GPU)
        ]
        found = [batch.frames.clone() for batch in kept_loader("cameras", decoding=ON_GPU)]
    stream.synchronize()
    for total, batch in zip(sums, kept_loader(), strict=True):
        expected = batch.frames.sum((-1, -2), dtype=torch.int64)
        assert apart(total, expected) <= SIZE[0] * SIZE[1]
    for frames, batch in zip(found, kept_loader("cameras"), strict=True):
        assert apart(frames, batch.frames) <= 1
