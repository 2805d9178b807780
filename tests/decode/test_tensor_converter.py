"""RGB tensors of frames follow the color tags, and are close to swscale's."""

import gc

import numpy as np
import pytest
import torch

from decode.gpus import needs_gpu
from decode.pictures_made import made_frame, semiplanar
from headrace import BackendError, Crop, FrameFormat, StreamIndex
from headrace.decode.converter import ArrayConverter
from headrace.decode.gpu.tensor_converter import TensorConverter
from headrace.decode.yuv420 import chroma_is_left
from headrace.testing.synth import KINDS
from headrace.video.content_digest import rows_of
from headrace.video.frame_format import Orientation
from media import read_frames, real_clips
from tests.kit.old_pyav import needs_full_pyav

pytestmark = needs_full_pyav

UPRIGHT = Orientation()
SHAPES = {
    "as it is": FrameFormat(),
    "area": FrameFormat(size=(40, 56)),
    "area, half as high": FrameFormat(size=(48, 128)),
    "larger": FrameFormat(size=(140, 178)),
    "bilinear": FrameFormat(size=(40, 57), interpolation="bilinear"),
    "bicubic": FrameFormat(size=(140, 57), interpolation="bicubic"),
    "crop": FrameFormat(crop=Crop(top=3, left=5, height=60, width=33)),
    "crop, area": FrameFormat(crop=Crop(top=3, left=5, height=60, width=70), size=(30, 35)),
    "cover": FrameFormat(size=(40, 40), fit="cover"),
    "contain": FrameFormat(size=(44, 40), fit="contain"),
}
STORED = [
    pytest.param("yuv420p", matrix, is_full, id=f"{name}{' full' * is_full}")
    for name, matrix in (("bt601", 5), ("bt709", 1), ("bt2020", 9), ("untagged", 2))
    for is_full in (False, True)
] + [
    pytest.param("yuv420p10le", 9, False, id="bt2020 10 bit"),
    pytest.param("yuv420p10le", 1, True, id="bt709 10 bit full"),
]


def by_tensors(frame, shape=SHAPES["as it is"], turn=UPRIGHT, *, device="cpu", left=False):
    made = TensorConverter(shape, turn, "clip", device, chroma_is_left=left).convert(frame, None)
    assert made.dtype == torch.uint8
    return made.cpu().numpy()


def assert_near(frame, shape, turn=UPRIGHT, *, left=False, most=5, mean=2.2):
    """Compare tensors with swscale's image: maximum and mean difference in levels."""
    expected = ArrayConverter(shape, turn, "clip").convert(frame, None).astype(int)
    found = by_tensors(frame, shape, turn, left=left).astype(int)
    assert found.shape == expected.shape
    apart = np.abs(found - expected)
    assert (apart.max() <= most, apart.mean() <= mean) == (True, True), (shape, apart.max())


def exact(frame):
    """Return float64 RGB at full size by the formulas of H.273; 2x2 pixels share chroma."""
    planes = [rows_of(plane, plane.width).astype(float) for plane in frame.planes]
    red, blue = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 9: (0.2627, 0.0593)}[frame.colorspace]
    black, whites, greys = (0, 255, 255) if frame.color_range == 2 else (16, 219, 224)
    y = (planes[0] - black) / whites
    u, v = ((each.repeat(2, 0).repeat(2, 1) - 128) / greys for each in planes[1:])
    r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
    g = (y - red * r - blue * b) / (1 - red - blue)
    return np.clip(255 * np.stack((r, g, b), -1), 0, 255)


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("matrix", [1, 5, 9])
def test_colors_follow_the_formulas_within_half_a_level(matrix, is_full):
    frame = made_frame((96, 128), matrix=matrix, is_full=is_full, is_noise=True)
    assert np.abs(by_tensors(frame) - exact(frame)).max() < 0.51


@pytest.mark.parametrize(
    ("number", "matrix", "is_full", "rgb"),
    [
        ((235, 128, 128), 1, False, (255, 255, 255)),
        ((16, 128, 128), 9, False, (0, 0, 0)),
        ((255, 128, 128), 5, True, (255, 255, 255)),
        ((81, 90, 240), 5, False, (254, 0, 0)),  # red of BT.601
        ((63, 102, 240), 1, False, (255, 1, 0)),  # red of BT.709
    ],
)
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv420p10le"])
def test_known_colors_are_converted(pixel_format, number, matrix, is_full, rgb):
    frame = made_frame((4, 4), pixel_format, matrix, is_full=is_full)
    for plane, value in zip(frame.planes, number, strict=True):
        wide = np.full(plane.line_size * plane.height, value, np.uint8)
        if "10" in pixel_format:
            value = round(value * 1023 / 255) if is_full and value == 255 else value * 4
            wide = np.full(plane.line_size // 2 * plane.height, value, np.uint16)
        plane.update(wide.tobytes())
    np.testing.assert_array_equal(by_tensors(frame)[1, 1], rgb)


@pytest.mark.parametrize("is_noise", [False, True], ids=["waves", "noise"])
@pytest.mark.parametrize(("pixel_format", "matrix", "is_full"), STORED)
def test_frames_are_close_to_swscale(pixel_format, matrix, is_full, is_noise):
    frame = made_frame((96, 128), pixel_format, matrix, is_full=is_full, is_noise=is_noise)
    for name, shape in SHAPES.items():
        if name == "larger" and is_noise:
            continue  # swscale clips in between, and differs by up to 46
        assert_near(frame, shape)


@pytest.mark.parametrize("shape", [FrameFormat(size=(41, 57)), FrameFormat(size=(8, 9))])
@pytest.mark.parametrize("size", [(97, 129), (96, 129), (75, 57)])
def test_smaller_frames_of_odd_width_equal_swscale_within_one_level(size, shape):
    for is_noise in (False, True):
        assert_near(made_frame(size, is_noise=is_noise), shape, most=1, mean=0.1)


@pytest.mark.parametrize("size", [(97, 129), (96, 129), (97, 128), (5, 3), (1, 1), (6, 4)])
def test_frames_of_any_size_are_close_to_swscale(size):
    for shape in (FrameFormat(), FrameFormat(size=(5, 7)), FrameFormat(size=(4, 4))):
        assert_near(made_frame(size), shape, mean=5)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv420p10le"])
def test_semiplanar_frames_equal_planar_ones(pixel_format, shape, left):
    frame = made_frame((50, 70), pixel_format, is_noise=True)
    if shape.crop is not None:
        shape = FrameFormat(crop=Crop(top=1, left=3, height=40, width=31), size=shape.size)
    stored = semiplanar(frame)
    assert stored.planes[0].line_size > 70 * (2 if "10" in pixel_format else 1)  # padded
    assert np.array_equal(by_tensors(stored, shape, left=left), by_tensors(frame, shape, left=left))


@pytest.mark.parametrize(
    "kind",
    [
        *("h264_10_bit", "hevc", "vp8", "vp9", "odd_size", "mpeg4", "mjpeg", "av1"),
        *("bt601", "bt709", "bt709_full", "bt2020"),
    ],
)
def test_decoded_frames_are_close_to_swscale_for_each_chroma_location(written, kind):
    frame = read_frames(written(kind))[3]
    left = chroma_is_left(KINDS[kind].codec)
    for size, most, mean in ((None, 5, 2.2), ((40, 56), 5, 2.2), ((40, 57), 1, 0.1)):
        assert_near(frame, FrameFormat(size=size), left=left, most=most, mean=mean)


@pytest.mark.parametrize("path", real_clips()[::3])
def test_frames_of_real_clips_are_close_to_swscale(path):
    index = StreamIndex.scan(path)
    [frame] = read_frames(path, most=1)
    left = chroma_is_left(index.info.codec)
    for shape in (FrameFormat(), FrameFormat(size=(112, 112), fit="cover")):
        assert_near(frame, shape, index.info.orientation, left=left)


@pytest.mark.parametrize("flips", [(True, False, True), (False, True, False), (True, True, True)])
def test_frames_are_rotated_upright(flips):
    frame = made_frame((96, 128))
    for shape in (FrameFormat(), FrameFormat(size=(30, 50)), SHAPES["crop"], SHAPES["contain"]):
        assert_near(frame, shape, Orientation(*flips), mean=5)


def test_each_frame_has_its_own_memory_or_the_given_one():
    converter = TensorConverter(FrameFormat(), UPRIGHT, "clip")
    frame, other = made_frame((16, 16)), made_frame((16, 16), is_noise=True)
    first = converter.convert(frame, None)
    kept = first.clone()
    del frame
    gc.collect()
    out = converter.new(converter.shape_of(other))
    assert converter.convert(other, out) is out
    assert torch.equal(first, kept)
    assert not torch.equal(first, out)


def test_pytorch_errors_are_backend_errors(monkeypatch):
    """Otherwise a file would be skipped as damaged if memory ran out."""
    converter = TensorConverter(FrameFormat(), UPRIGHT, "clip")
    with pytest.raises(BackendError, match=r"clip cannot be made into tensors on cpu: .*memory"):
        converter.new((1 << 50, 3))
    monkeypatch.setattr(torch.Tensor, "clamp_", None)
    with pytest.raises(BackendError, match="cannot be made into tensors on cpu: 'NoneType'"):
        converter.convert(made_frame((8, 8)), None)


@needs_gpu
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv420p10le"])
def test_gpu_and_cpu_compute_the_same(pixel_format, shape):
    frame = made_frame((96, 128), pixel_format, is_noise=True)
    on_gpu = by_tensors(frame, shape, device="cuda:0").astype(int)
    assert np.abs(on_gpu - by_tensors(frame, shape)).max() <= 1
