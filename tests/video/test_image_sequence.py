"""Images in order, with a rate, are read like a video."""

import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import headrace
from headrace import DecodeError, OpenError, SequentialFrames
from headrace.testing.synth import KINDS, write_clip
from headrace.video.image_sequence import ImageSequence, is_pattern, without_number

SIZE = (36, 52)
COUNT = 24


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def picture(number: int, size: tuple[int, int] = SIZE) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (*size, 3), np.uint8)


def save(path, number, size=SIZE) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.fromarray(picture(number, size)).save(path)


@pytest.fixture
def folder(tmp_path):
    """Lossless images from number 7 on, in a folder whose name has characters special to FFmpeg."""
    folder = tmp_path / "50% [of] {all}*"
    for number in range(COUNT):
        save(folder / f"{number + 7:05d}.png", number)
    return folder


@pytest.fixture
def expected():
    return np.stack([picture(number) for number in range(COUNT)])


@pytest.mark.parametrize("name", ["", "%05d.png"])
def test_images_are_read_in_order_at_their_rate(folder, expected, name):
    with headrace.open(ImageSequence(folder / name, rate=12.5)) as reader:
        assert np.array_equal(reader[:], expected)
        assert reader.index.frame_rate == Fraction(25, 2)
        assert reader.get_frame_played_at(1.0).index.tolist() == [12]
        assert reader.get_frames_at([3, 0]).pts_seconds.tolist() == [0.24, 0.0]
        assert reader.metadata.container == "image2"


@pytest.mark.parametrize("suffix", ["jpg", "webp", "bmp", "tif", "tiff", "JPEG"])
def test_other_image_formats_are_read(tmp_path, suffix):
    smooth = np.full((*SIZE, 3), 90, np.uint8)
    for number in range(3):
        Image.fromarray(smooth + 40 * number).save(tmp_path / f"{number}.{suffix}")
    with headrace.open(ImageSequence(tmp_path, rate=10)) as reader:
        assert np.abs(reader[[2, 0]].astype(int) - [[[[170]]], [[[90]]]]).max() <= 3


def test_16_bit_images_keep_their_bits(tmp_path):
    Image.fromarray(np.arange(36 * 52, dtype=np.uint16).reshape(SIZE) * 33).save(tmp_path / "0.png")
    with headrace.open(ImageSequence(tmp_path, rate=1), dtype="uint16") as reader:
        assert len(np.unique(reader[0][..., 0])) > 1800


def test_any_picture_is_decoded_alone(folder, expected):
    with headrace.open(ImageSequence(folder, rate=10)) as reader:
        wanted = [20, 3, 11]
        assert np.array_equal(reader[wanted], expected[wanted])
        assert reader.counters.frames_decoded == 3


def test_equal_images_are_distinguished_by_time(tmp_path):
    for number in range(COUNT):
        save(tmp_path / "same" / f"{number:03d}.png", number // 8)
    with headrace.open(ImageSequence(tmp_path / "same", rate=10)) as reader:
        for wanted in (20, 12, 4, 13):
            assert np.array_equal(reader[wanted], picture(wanted // 8))
        assert reader.counters.opens == 1


def test_numbers_need_no_leading_zeros_in_a_pattern(tmp_path):
    for number in range(12):
        save(tmp_path / "plain" / f"frame{number}.png", number)
    with headrace.open(ImageSequence(tmp_path / "plain" / "frame%d.png", rate=10)) as reader:
        assert np.array_equal(reader[11], picture(11))


def test_loaders_accept_sequences_and_videos(folder, tmp_path, expected):
    video = write_clip(tmp_path / "clip", replace(KINDS["h264"], size=SIZE))
    videos = [ImageSequence(folder, rate=10), video]
    options = {"batch_size": 8, "size": None, "num_threads": 2, "prefetch_next_epoch": False}
    with headrace.FrameLoader(videos, sampling=SequentialFrames(), **options) as loader:
        batches = list(loader)
    frames, of = torch.cat([b.frames for b in batches]), torch.cat([b.video for b in batches])
    assert np.array_equal(frames[of == 0].movedim(1, -1).numpy(), expected)
    assert int((of == 1).sum()) == 48


def test_datasets_and_read_frames_accept_sequences(folder, expected):
    frames = ImageSequence(folder / "%05d.png", rate=10)
    with headrace.FrameDataset([frames], size=None) as dataset:
        assert np.array_equal(dataset[9]["frames"].movedim(0, -1).numpy(), expected[9])
    found = [batch.frames for batch in headrace.read_frames([frames], workers=2)]
    assert np.array_equal(np.concatenate(found), expected)


def test_the_rate_is_part_of_the_index_key(folder):
    for rate in (10, 20, 10):
        with headrace.open(ImageSequence(folder, rate=rate)) as reader:
            assert reader.index.frame_rate == rate


def test_a_moved_folder_has_the_same_content_id(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "other" / folder.name)
    sequences = [
        ImageSequence(each, rate=10) for each in (folder, tmp_path / "other" / folder.name)
    ]
    assert len({headrace.FrameDataset([each]).checksum for each in sequences}) == 1


def test_an_added_image_is_detected(folder):
    with headrace.open(ImageSequence(folder, rate=10)) as reader:
        reader[0]
        save(folder / "00099.png", 0)
        with pytest.raises(OpenError, match="has changed since it was indexed"):
            reader[1]
    with headrace.open(ImageSequence(folder, rate=10)) as reader:
        assert len(reader) == COUNT + 1


def test_a_damaged_image_is_named(tmp_path):
    for number in range(6):
        save(tmp_path / "jpegs" / f"{number}.jpg", number)
    bad = tmp_path / "jpegs" / "3.jpg"
    bad.write_bytes(bad.read_bytes()[:400])
    with headrace.open(ImageSequence(tmp_path / "jpegs", rate=10)) as reader:
        with pytest.raises(DecodeError) as caught:
            reader[:]
        assert caught.value.missing == (3,)
        assert reader[4].shape == (*SIZE, 3)


def test_an_image_that_was_damaged_once_is_read_again(tmp_path):
    """Another program may have been writing it, so its damage is not stored with the index."""
    for number in range(6):
        save(tmp_path / "jpegs" / f"{number}.jpg", number)
    image = tmp_path / "jpegs" / "3.jpg"
    whole = image.read_bytes()
    image.write_bytes(whole[:400])
    sequence = ImageSequence(tmp_path / "jpegs", rate=10)
    with headrace.open(sequence) as reader, pytest.raises(DecodeError):
        reader[3]
    image.write_bytes(whole)
    with headrace.open(sequence) as reader:
        assert reader[3].shape == (*SIZE, 3)


def test_images_of_several_sizes_need_a_size(tmp_path):
    for number, size in enumerate([(20, 30), (30, 20)]):
        save(tmp_path / "sizes" / f"{number}.png", number, size)
    frames = ImageSequence(tmp_path / "sizes", rate=1)
    with headrace.open(frames) as reader, pytest.raises(DecodeError, match="give a size"):
        reader[:]
    with headrace.open(frames, size=(16, 16), fit="contain") as reader:
        assert reader[:].shape == (2, 16, 16, 3)


def test_a_pattern_is_named_by_its_words_or_its_folder():
    paths = ("left_%05d.jpg", "%05d.jpg", "%03d_cam.png", "film.mp4")
    called = [without_number(Path("frames") / path) for path in paths]
    assert called == [Path("frames") / name for name in ("left", "", "cam", "film.mp4")]


def test_an_existing_file_is_not_a_pattern(tmp_path):
    path = tmp_path / "film-%05d.mp4"
    assert is_pattern(path)
    path.touch()
    assert not is_pattern(path)
