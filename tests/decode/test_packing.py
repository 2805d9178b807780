"""Unpacked frames equal the packed ones, for any content, size and format."""

import numpy as np
import pytest

from headrace import BackendError, FrameFormat
from headrace.decode.packing import FFVHUFF, PACKINGS, UTVIDEO, UTVIDEO_LEFT, Packer
from headrace.video.frame_format import TAG_BYTES

FORMATS = {"rgb": {}, "16 bits": {"dtype": "uint16"}, "yuv420": {"layout": "yuv420"}}
SIZES = [(256, 256), (16, 16), (17, 33), (18, 34), (240, 426), (16, 301), (2, 2), (64, 2), (1, 1)]
BOTH = (UTVIDEO, UTVIDEO_LEFT)
TAKEN = {"rgb": BOTH, "16 bits": (FFVHUFF,), "yuv420": BOTH}


def frames_of(shape):
    """Yield a black frame, noise, and a smooth one, in the layout of a format."""
    dims, dtype = shape.array_shape(shape.size), np.dtype(shape.dtype)
    chance = np.random.default_rng(0)
    yield np.zeros(dims, dtype)
    yield chance.integers(0, np.iinfo(dtype).max, dims, dtype, endpoint=True)
    yield (np.cumsum(chance.integers(0, 3, dims), axis=-1) % np.iinfo(dtype).max).astype(dtype)


CASES = [
    (packing, FrameFormat(size=size, **options))
    for name, options in FORMATS.items()
    for packing in TAKEN[name]
    for size in SIZES
    if name != "yuv420" or not any(side % 2 for side in size)
]


@pytest.mark.parametrize(
    ("packing", "shape"),
    CASES,
    ids=[
        f"{p.codec}-{p.prediction}-{s.layout}-{s.dtype}-{s.size[0]}x{s.size[1]}" for p, s in CASES
    ],
)
def test_unpacked_frames_equal_the_originals(packing, shape):
    packer, other = Packer(packing, shape), Packer(packing, shape)
    for _ in range(3):
        for frame in frames_of(shape):
            packed, unpacked = packer.pack(frame), np.empty_like(frame)
            for unpacker in (packer, other):  # like another thread or process
                unpacked[...] = 1
                unpacker.unpack(packed, unpacked)
                assert np.array_equal(unpacked, frame)
            assert len(packed) <= frame.nbytes + 1


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_has_its_codecs(name):
    shape = FrameFormat(size=(32, 32), **FORMATS[name])
    assert tuple(packing for packing in PACKINGS if packing.pixel_format(shape)) == TAKEN[name]


def test_smooth_frames_become_smaller_and_noise_does_not():
    shape = FrameFormat(size=(64, 64))
    _, noise, smooth = frames_of(shape)
    packer = Packer(UTVIDEO, shape)
    assert len(packer.pack(smooth)) < smooth.nbytes / 2
    assert len(packer.pack(noise)) == noise.nbytes + 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda packed: b"", "is not utvideo"),
        (lambda packed: b"\x00" + packed[1:], "is not utvideo"),
        (lambda packed: b"\x02" + packed[1:], "is not utvideo"),
        (lambda packed: packed[:40], "cannot be unpacked"),
        (lambda packed: packed[:5], "cannot be unpacked"),
    ],
    ids=["empty", "as if raw", "another codec", "cut", "no packet"],
)
def test_invalid_packets_are_refused(change, says):
    shape = FrameFormat(size=(64, 64))
    *_, smooth = frames_of(shape)
    packer = Packer(UTVIDEO, shape)
    packed = packer.pack(smooth)
    with pytest.raises(BackendError, match=says):
        packer.unpack(change(packed), np.empty_like(smooth))
    unpacked = np.empty_like(smooth)
    packer.unpack(packed, unpacked)
    assert np.array_equal(unpacked, smooth)


def test_a_packet_of_another_size_is_refused():
    packed = Packer(UTVIDEO, FrameFormat(size=(64, 64))).pack(np.zeros((64, 64, 3), np.uint8))
    with pytest.raises(BackendError):
        Packer(UTVIDEO, FrameFormat(size=(32, 32))).unpack(packed, np.empty((32, 32, 3), np.uint8))


def test_yuv_tags_survive_packing():
    shape = FrameFormat(size=(32, 32), layout="yuv420")
    *_, frame = frames_of(shape)
    frame[-TAG_BYTES:] = 9, 2
    unpacked = np.empty_like(frame)
    packer = Packer(UTVIDEO, shape)
    packer.unpack(packer.pack(frame), unpacked)
    assert unpacked[-TAG_BYTES:].tolist() == [9, 2]
