"""Frames that cannot stay on a device are refused when a loader opens; and what a GPU holds."""

import numpy as np
import pytest
import torch
from PIL import Image

from decode.backends import needs_torchcodec
from decode.gpus import needs_gpu
from headrace import BackendError, CameraView, ClipAugment, DecoderConfig, ImageSequence
from loaders.cameras.clips import CAMERAS, WAYS, write_pictures
from loaders.videos import KEPT, ON_GPU, SIZE, apart, pictures


def test_frames_of_odd_sides_are_near_those_of_the_cpu(kept_loader, written):
    """On the CPU, with no row or column of colour missing."""
    odd = [written("odd_size")]
    kept, arrays = (
        next(iter(kept_loader(files=odd, size=None, decoding=each)))
        for each in (KEPT, DecoderConfig())
    )
    assert tuple(kept.frames.shape[2:]) == (75, 53)
    assert apart(kept.frames, arrays.frames) <= 5


def test_what_cannot_be_kept_is_refused_when_a_loader_opens(
    kept_loader, written, tmp_path, one_gpu, refused
):
    """Before any decoding; also images that the CPU makes into tensors."""
    full, mjpeg, odd = ([written(kind)] for kind in ("odd_size_444", "mjpeg", "odd_size"))
    noise = np.random.default_rng(0).integers(0, 256, (3, 64, 96, 3), np.uint8)
    png, jpg = (
        write_pictures(tmp_path / kind, {"clip": {"front": noise}}, f".{kind}")
        for kind in ("png", "jpg")
    )
    (tmp_path / "sequence").mkdir()
    for number in range(3):
        Image.new("RGB", (64, 48)).save(tmp_path / "sequence" / f"{number}.jpg", subsampling=2)
    sequence = [ImageSequence(tmp_path / "sequence", rate=10)]
    names = {"full": full, "mjpeg": mjpeg, "odd": odd, "png": png, "jpg": jpg}
    refused("kept", loader=kept_loader, sequence=sequence, **names)
    batch = next(iter(kept_loader(files=sequence, batch_size=3)))
    assert tuple(batch.frames.shape) == (3, 3, *SIZE)


@needs_torchcodec
def test_frames_by_torchcodec_cannot_be_kept(kept_loader):
    with pytest.raises(BackendError, match="torchcodec returns arrays; leave the backend out"):
        kept_loader(decoding=DecoderConfig(backend="torchcodec", keeps_on_device=True))


def test_batches_of_the_cpu_may_be_asked_for_there(kept_loader, one_gpu):
    assert next(iter(kept_loader(device="cpu"))).frames.device.type == "cpu"


CROPS = {camera: CameraView(resize=0.5, crop=(20, 40 - 4 * k)) for k, camera in enumerate(CAMERAS)}
FRAMED = {"size": None, "view": CROPS, "augment": ClipAugment(flip=0.5)}


@needs_gpu
@pytest.mark.parametrize(
    ("door", "options", "levels"),
    [
        ("frames", {"num_threads": 1}, 1),
        ("clips", {"num_threads": 1}, 1),
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
    """All are held until the last has come; of frames, nothing is brought down after an epoch."""
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
        before = each.decode_counters.brought_down_bytes
        assert before > 0  # a keyframe of each decoder, held against the CPU's
        assert list(each)
        assert each.decode_counters.brought_down_bytes == before


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
