"""What a frame is made into: crops, aspect ratios, interpolations and 16 bits."""

import numpy as np
import pytest
import torch
from av.video.frame import VideoFrame
from torchvision.transforms import v2

from headrace.decode.convert import FrameConverter
from headrace.decode.yuv420 import Yuv420Unpacker
from headrace.errors import ConfigError
from headrace.video.shape import Crop, FrameShape, Orientation

FORMATS = ["yuv420p", "yuvj420p", "yuv422p", "yuv420p10le", "nv12", "yuv444p", "gray", "rgb24"]
MODES = {
    "bilinear": (v2.InterpolationMode.BILINEAR, 1),
    "bicubic": (v2.InterpolationMode.BICUBIC, 2),
}
"""torchvision's, and grey levels that ours may differ by in noise."""


def noise(pixel_format: str, size: tuple[int, int]) -> VideoFrame:
    """Return a frame in which no two neighbours are alike."""
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    return VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=pixel_format)


def smooth(size: tuple[int, int]) -> VideoFrame:
    """Return a frame that is bright, and alike everywhere."""
    return VideoFrame.from_ndarray(np.full((*size, 3), 200, np.uint8), format="rgb24").reformat(
        format="yuv420p"
    )


def made(frame: VideoFrame, shape: FrameShape, orientation: Orientation | None = None):
    return FrameConverter(shape, orientation or Orientation(), "a.mp4").convert(frame, None)


@pytest.mark.parametrize("pixel_format", FORMATS)
@pytest.mark.parametrize("size", [(64, 96), (63, 95)])
@pytest.mark.parametrize("corner", [(2, 4), (3, 5), (4, 5)])
def test_a_crop_is_cut_from_the_whole_frame(pixel_format, size, corner):
    frame = noise(pixel_format, size)
    crop = Crop(top=corner[0], left=corner[1], height=33, width=41)
    there = (slice(crop.top, crop.top + 33), slice(crop.left, crop.left + 41))
    assert np.array_equal(made(frame, FrameShape(crop=crop)), made(frame, FrameShape())[there])


def test_a_crop_of_a_turned_frame_is_cut_from_the_upright_one():
    frame, turned = noise("yuv420p", (64, 96)), Orientation.from_rotation(90)
    crop = FrameShape(crop=Crop(top=3, left=5, height=40, width=21))
    whole = made(frame, FrameShape(), turned)
    assert np.array_equal(made(frame, crop, turned), whole[3:43, 5:26])


@pytest.mark.parametrize("interpolation", MODES)
@pytest.mark.parametrize("size", [(32, 32), (17, 90), (128, 200)])
def test_bilinear_and_bicubic_are_torchvisions_antialiased(interpolation, size):
    frame = noise("yuv420p", (72, 128))
    whole = torch.from_numpy(made(frame, FrameShape())).movedim(-1, 0)
    mode, tolerance = MODES[interpolation]
    resize = v2.Resize(size, interpolation=mode, antialias=True)
    found = made(frame, FrameShape(size=size, interpolation=interpolation))
    difference = resize(whole).movedim(0, -1).numpy().astype(int) - found
    assert np.abs(difference).max() <= tolerance


@pytest.mark.parametrize("side", [32, 33, 50])
@pytest.mark.parametrize("size", [(72, 128), (128, 71), (64, 64)])
def test_cover_of_a_square_is_torchvisions_resize_and_center_crop(side, size):
    frame = noise("yuv420p", size)
    whole = torch.from_numpy(made(frame, FrameShape())).movedim(-1, 0)
    expected = v2.Compose([v2.Resize(side, antialias=True), v2.CenterCrop(side)])(whole)
    shape = FrameShape(size=(side, side), fit="cover", interpolation="bilinear")
    difference = expected.movedim(0, -1).numpy().astype(int) - made(frame, shape)
    assert np.abs(difference).max() <= 1


@pytest.mark.parametrize("orientation", [Orientation(), Orientation.from_rotation(90)])
def test_contain_shows_all_on_black(orientation):
    shape = FrameShape(size=(64, 64), fit="contain")
    pixels = made(smooth((32, 64)), shape, orientation)
    upright = pixels if not orientation.is_transposed else pixels.swapaxes(0, 1)
    assert (upright[16:48] > 150).all()
    assert not upright[:16].any()
    assert not upright[48:].any()


@pytest.mark.parametrize("fit", ["cover", "contain"])
def test_frames_that_wait_in_yuv_fit_as_rgb_does(fit):
    frame = smooth((48, 90))
    shape = FrameShape(size=(64, 64), fit=fit, layout="yuv420")
    found = np.empty((64, 64, 3), np.uint8)
    Yuv420Unpacker().unpack(made(frame, shape), found)
    expected = made(frame, FrameShape(size=(64, 64), fit=fit))
    assert np.abs(found.astype(int) - expected)[:14].max() <= 4
    assert np.abs(found.astype(int) - expected)[20:44].max() <= 4


@pytest.mark.parametrize("fit", ["stretch", "cover", "contain"])
@pytest.mark.parametrize("size", [(1, 1), (7, 300), (300, 7), (72, 128)])
def test_every_fit_gives_the_size(fit, size):
    assert made(smooth((72, 128)), FrameShape(size=size, fit=fit)).shape == (*size, 3)


def test_ten_bits_come_as_many_levels_when_16_are_asked_for():
    frame = noise("yuv420p10le", (8, 512))
    rows = np.frombuffer(memoryview(frame.planes[0]), np.uint16).reshape(8, -1).copy()
    rows[:, :512] = np.linspace(64, 940, 512)
    frame.planes[0].update(rows.tobytes())
    for plane in frame.planes[1:]:
        plane.update(np.full(plane.buffer_size // 2, 512, np.uint16).tobytes())
    found = made(frame, FrameShape(dtype="uint16"))
    assert (found.dtype, found.shape) == (np.uint16, (8, 512, 3))
    assert len(np.unique(found)) == 512
    assert np.abs(found[0, :, 1] - np.linspace(0, 65283, 512)).max() < 80


def test_memory_of_another_type_is_refused():
    converter = FrameConverter(FrameShape(dtype="uint16"), Orientation(), "a.mp4")
    with pytest.raises(ConfigError, match=r"frames of a\.mp4 are uint16"):
        converter.convert(smooth((8, 8)), np.empty((8, 8, 3), np.uint8))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"fit": "cover"}, "fit='cover' needs a size"),
        ({"fit": "fill", "size": (8, 8)}, "fit must be one of stretch, cover, contain"),
        ({"interpolation": "lanczos"}, "interpolation must be one of area, bilinear, bicubic"),
        ({"dtype": "float32"}, "dtype must be one of uint8, uint16"),
        ({"dtype": "uint16", "interpolation": "bicubic"}, "uint16 is resized by area only"),
        ({"layout": "yuv420", "size": (8, 8), "dtype": "uint16"}, "YUV 4:2:0 is uint8"),
    ],
)
def test_what_cannot_be_made_is_refused(asked, message):
    with pytest.raises(ConfigError, match=message):
        FrameShape(**asked)
