"""Pictures in files and animated ones: what comes of each kind, and what is said of others."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import headrace
from headrace.decode.pictures import find_pictures, is_picture, read_picture, upright_size
from headrace.errors import DecodeError, OpenError

RED = (255, 0, 0)


def chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


@pytest.fixture
def red() -> Image.Image:
    """Return a picture 40 wide and 30 high whose upper left corner is white."""
    picture = Image.new("RGB", (40, 30), RED)
    picture.paste("white", (0, 0, 8, 8))
    return picture


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_picture_is_known_by_its_content_whatever_it_is_called(tmp_path, red, kind):
    path = tmp_path / "picture.mp4"
    red.save(path, kind)
    assert is_picture(path)
    pixels = read_picture(path)
    assert (pixels.shape, pixels.dtype) == ((30, 40, 3), np.uint8)
    assert np.abs(pixels[25, 35].astype(int) - RED).max() < 12


def test_a_picture_is_turned_as_its_exif_says(tmp_path, red):
    path, exif = tmp_path / "a.jpg", Image.Exif()
    exif[0x0112] = 6
    red.save(path, exif=exif)
    assert upright_size(path) == (40, 30)
    pixels = read_picture(path)
    assert pixels.shape == (40, 30, 3)
    assert pixels[2, 27].min() > 200, "the corner went to the right"


def test_sixteen_bits_alpha_palette_and_cmyk_become_rgb(tmp_path):
    grey = np.array([[0, 257 * 100, 65535]], np.uint16)
    Image.fromarray(grey).save(tmp_path / "grey.png")
    assert read_picture(tmp_path / "grey.png")[0, :, 0].tolist() == [0, 100, 255]
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "alpha.png")
    assert read_picture(tmp_path / "alpha.png")[0, 0].tolist() == [255, 255, 255]
    Image.new("P", (4, 4)).save(tmp_path / "palette.png")
    assert read_picture(tmp_path / "palette.png")[0, 0].tolist() == [0, 0, 0]
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "cmyk.jpg")
    assert np.abs(read_picture(tmp_path / "cmyk.jpg")[4, 4].astype(int) - RED).max() < 6


def test_a_picture_that_pretends_to_be_huge_is_refused_by_its_header(tmp_path):
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND", b""))
    with pytest.raises(OpenError, match=r"bomb.png: it has over 67,108,864 pixels; make it small"):
        upright_size(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is no PNG, JPEG or WebP that can be read"),
        (b"hello", "it is no PNG, JPEG or WebP that can be read"),
        (b"GIF89a" + bytes(40), "it is no PNG, JPEG or WebP that can be read"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "it is no PNG, JPEG or WebP that can be read"),
        (b"\xff\xd8\xff" + bytes(40), "it is no PNG, JPEG or WebP that can be read"),
    ],
)
def test_what_is_none_is_said_to_be_none(tmp_path, content, words):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(OpenError, match=rf"a.png: {words}"):
        upright_size(path)


def test_a_missing_and_an_animated_picture_are_named(tmp_path, red):
    with pytest.raises(OpenError, match=r"none.png: no such file or directory; give"):
        upright_size(tmp_path / "none.png")
    for suffix in ("webp", "png"):
        path = tmp_path / f"moving.{suffix}"
        red.save(path, save_all=True, append_images=[Image.new("RGB", (40, 30))])
        with pytest.raises(OpenError, match=r"it is an animation of 2 pictures; convert it to a"):
            upright_size(path)


@pytest.mark.parametrize("kind", ["png", "jpg", "webp"])
def test_a_picture_that_is_cut_off_is_damaged(tmp_path, kind):
    whole, cut = tmp_path / f"whole.{kind}", tmp_path / f"cut.{kind}"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(whole)
    cut.write_bytes(whole.read_bytes()[:1500])
    with pytest.raises((DecodeError, OpenError), match=r"cannot read the picture .*cut"):
        read_picture(cut)


def test_a_folder_holds_what_is_a_picture_or_is_called_one(tmp_path, red):
    (tmp_path / "below").mkdir()
    red.save(tmp_path / "below" / "b.JPG", "JPEG")
    red.save(tmp_path / "lies.mp4", "PNG")
    red.save(tmp_path / ".hidden.png")
    red.save(tmp_path / "stream.mjpeg", "JPEG")
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "notes.txt").write_text("hello")
    found = [path.relative_to(tmp_path).as_posix() for path in find_pictures(tmp_path)]
    assert found == ["below/b.JPG", "lies.mp4", "text.png"]


COUNT = 20


def picture(number: int) -> np.ndarray:
    """Return few colours, as GIF has: a block that moves and brightens."""
    pixels = np.full((48, 64, 3), 30, np.uint8)
    pixels[number : number + 10, 2 * number : 2 * number + 12] = [number * 10, 200, 50]
    return pixels


@pytest.mark.parametrize("name", ["a.gif", "a.png"])
@pytest.mark.parametrize("disposal", [1, 2])
def test_any_frame_is_the_one_that_is_shown(tmp_path, name, disposal):
    first, *others = [Image.fromarray(picture(number)) for number in range(COUNT)]
    times = [50, 100] * (COUNT // 2)
    how = {"disposal": disposal} if name == "a.gif" else {}
    first.save(tmp_path / name, save_all=True, append_images=others, duration=times, **how)
    with headrace.open(tmp_path / name) as reader:
        assert len(reader) == COUNT
        wanted = [15, 3, 19, 0]
        assert np.array_equal(reader[wanted], np.stack([picture(number) for number in wanted]))
        assert reader.at([0.02, 0.06, 0.16]).index.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_still_picture_is_no_video(tmp_path, name):
    Image.fromarray(picture(0)).save(tmp_path / name)
    with pytest.raises(OpenError, match=r"it is a (PNG|JPEG) picture, not a video"):
        headrace.open(tmp_path / name)
