"""Planes of frames that wait packed become the RGB of a direct conversion, or are not used."""

import av
import numpy as np
import pytest

from headrace import Crop, FrameFormat
from headrace.decode.converter import ArrayConverter
from headrace.decode.exact_planes import ExactPlanes, PixelUses, PlaneScaler, PlanesWriter
from headrace.decode.packing import FFVHUFF, UTVIDEO, UTVIDEO_LEFT, Packer, exact_planes
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.synth import Colour, Look, SynthClip
from headrace.video.frame_format import Orientation
from headrace.video.pyav_version import ONE_THREAD

SHAPE = FrameFormat(size=(48, 64))


@pytest.fixture
def frames(written):
    """Return `frames(look, **fields)`: the decoded frames of a clip in 96x128."""

    def decode(look=None, **fields):
        clip = SynthClip(num_frames=4, gop=2, look=Look(**look or {}), **fields)
        with av.open(written(clip)) as container:
            return [*container.decode(video=0)]

    return decode


def converter_of(shape=SHAPE, orientation=None):
    return ArrayConverter(shape, orientation or Orientation(), "clip")


def unpacked(planes, packing=UTVIDEO, shape=SHAPE):
    """Return the RGB of planes after packing; another packer unpacks them."""
    out = np.zeros((*shape.size, 3), np.uint8)
    Packer(packing, shape).unpack(Packer(packing, shape).pack(planes), out)
    return out


def noise_like(frame, seed):
    """Return a copy of a frame with other pixels."""
    noise = frame.reformat(frame.width + 2, frame.height).reformat(frame.width, frame.height)
    noise.colorspace, noise.color_range = frame.colorspace, frame.color_range
    for number, plane in enumerate(noise.planes):
        plane.update(np.random.default_rng((seed, number)).bytes(plane.buffer_size))
    return noise


SAME = {
    "untagged": ({}, {}),
    "bt709": ({"colour": Colour(matrix="bt709")}, {}),
    "full range": ({"colour": Colour(matrix="bt709", full_range=True)}, {}),
    "bt2020": ({"colour": Colour(matrix="bt2020")}, {}),
    "jpeg": ({"pixel_format": "yuvj420p"}, {"codec": "mjpeg", "container": "avi"}),
    "mpeg2": ({}, {"codec": "mpeg2video", "container": "ts"}),
    "vp9": ({}, {"codec": "vp9", "container": "webm"}),
}


@pytest.mark.parametrize("packing", [UTVIDEO, UTVIDEO_LEFT], ids=["median", "left"])
@pytest.mark.parametrize(("look", "fields"), SAME.values(), ids=SAME)
def test_packed_planes_become_the_same_rgb(frames, look, fields, packing):
    converter, found = converter_of(), frames(look, **fields)
    scaler = exact_planes(SHAPE).scaler(found[0], converter)
    for seed, frame in enumerate(found):
        for each in (frame, noise_like(frame, seed)):
            planes = scaler.scale(each)
            assert np.array_equal(unpacked(planes, packing), converter.convert(each, None))


def test_each_location_of_chroma_has_its_scaler(frames):
    """It may change at a keyframe, and no property of PyAV shows it."""
    exact, converter, different = exact_planes(SHAPE), converter_of(), set()
    for location in (0, 1, 2, 0, 3, 1, 4, 0, 5):
        options = (("x264-params", f"chromaloc={location}"),)
        frame = noise_like(frames(encoder_options=options)[0], 1)
        scaler = exact.scaler(frame, converter)
        assert scaler is not None or location > 1
        if scaler is not None:
            rgb = unpacked(scaler.scale(frame))
            assert np.array_equal(rgb, converter.convert(frame, None)), location
            different.add(rgb.tobytes())
    # PyAV before 17 ignores the location. Otherwise a wrong one must be visible.
    assert len(different) == 2 or not ONE_THREAD


REFUSED = {
    "enlarged": ({"size": (192, 256)}, {}, {}),
    "as large": ({"size": (96, 128)}, {}, {}),
    "odd width": ({"size": (48, 63)}, {}, {}),
    "cut": ({"size": (48, 48), "fit": "cover"}, {}, {}),
    "crop": ({"size": (24, 32), "crop": Crop(top=0, left=0, height=48, width=64)}, {}, {}),
    "444": ({}, {"pixel_format": "yuv444p"}, {}),
    "10 bits": ({}, {"pixel_format": "yuv420p10le"}, {"codec": "hevc"}),
    "422, chroma at the left": ({}, {"pixel_format": "yuv422p"}, {}),
    "rgb": ({}, {"pixel_format": "rgb24"}, {"codec": "huffyuv", "container": "avi"}),
}


@pytest.mark.parametrize(("shape", "look", "fields"), REFUSED.values(), ids=REFUSED)
def test_planes_that_are_not_exact_are_not_used(frames, shape, look, fields):
    shape = FrameFormat(**{"size": SHAPE.size, **shape})
    exact, converter = exact_planes(shape), converter_of(shape)
    [first, *_] = frames(look, **fields)
    assert [exact.scaler(first, converter) for _ in range(2)] == [None, None]


def test_rotated_frames_have_no_planes(frames):
    shape, turned = FrameFormat(size=(32, 32)), Orientation.from_rotation(180)
    assert exact_planes(shape).scaler(frames()[0], converter_of(shape, turned)) is None


@pytest.mark.parametrize(
    "shape",
    [
        FrameFormat(size=(48, 64), dtype="uint16"),
        FrameFormat(size=(48, 64), layout="yuv420"),
        FrameFormat(size=(48, 64), interpolation="bilinear"),
        FrameFormat(size=(8, 64)),
        FrameFormat(),
    ],
    ids=["16 bits", "yuv420", "bilinear", "small", "no size"],
)
def test_formats_without_planes(shape):
    assert exact_planes(shape) is None


def test_a_frame_of_another_kind_or_with_fields_has_no_planes(frames):
    [first, *_], [tagged, *_] = frames(), frames({"colour": Colour(matrix="bt709")})
    fields = frames(structure="interlaced")
    scaler = exact_planes(SHAPE).scaler(first, converter_of())
    assert scaler.scale(first) is not None
    assert scaler.scale(tagged) is None
    assert any(frame.interlaced_frame for frame in fields)
    assert all(scaler.scale(frame) is None for frame in fields if frame.interlaced_frame)


def test_many_kinds_of_frames(frames):
    exact, [first, *_] = exact_planes(SHAPE), frames()
    for width in range(66, 120, 2):
        frame = first.reformat(width, 96)
        scaler = exact.scaler(frame, converter_of())
        assert np.array_equal(unpacked(scaler.scale(frame)), converter_of().convert(frame, None))
    assert len(exact._scalers) <= 16


def test_a_small_frame_is_not_overwritten_by_noise(frames):
    small, shape = frames()[0].reformat(64, 64), FrameFormat(size=(32, 32))
    before = small.to_ndarray()
    assert exact_planes(shape).scaler(small, converter_of(shape)) is not None
    assert np.array_equal(small.to_ndarray(), before)


def test_an_ffmpeg_without_the_option_has_no_planes(frames, monkeypatch):
    def refuses(*_):
        raise av.error.OptionNotFoundError(1, "no option in_chroma_loc")

    monkeypatch.setattr(PlaneScaler, "__init__", refuses)
    assert exact_planes(SHAPE).scaler(frames()[0], converter_of()) is None


def test_a_writer_writes_what_each_frame_is_used_for(frames):
    found, converter = frames(), converter_of()
    rgb = [converter.convert(frame, None) for frame in found]
    memory = np.zeros((4, 48, 64, 3), np.uint8)
    uses = [PixelUses(*use) for use in ((False, True), (True, False), (True, True), (True, False))]
    writer = PlanesWriter(ExactPlanes(SHAPE), converter, memory, uses.__getitem__)
    for position, frame in enumerate(found):
        assert writer.write(position, frame).base is memory
    assert [*writer.planes] == [1, 2, 3]
    assert [bool(pixels.any()) for pixels in memory] == [True, False, True, False]
    assert np.array_equal(memory[[0, 2]], [rgb[0], rgb[2]])
    [tagged, *_] = frames({"colour": Colour(matrix="bt709")})
    writer.write(1, tagged)  # a repeated frame, of another kind
    assert [*writer.planes] == [2, 3]
    assert np.array_equal(memory[1], converter.convert(tagged, None))


def test_a_sample_has_the_planes_of_the_first_frame(frames):
    found, converter = frames(), converter_of()
    writer = PlanesWriter(ExactPlanes(SHAPE), converter, clock=SYSTEM_CLOCK)
    first, second = (writer.write(0, frame) for frame in found[:2])
    assert np.array_equal(unpacked(writer.sample.planes), first)
    assert not np.array_equal(first, second)
    assert 0 < writer.sample.planes_ns < writer.sample.spent_ns
    without = PlanesWriter(None, converter, clock=SYSTEM_CLOCK)
    without.write(0, found[0])
    assert without.sample.planes is None
    assert without.sample.planes_ns == without.sample.rgb_ns > 0


@pytest.mark.parametrize("packing", [UTVIDEO, UTVIDEO_LEFT, FFVHUFF], ids=["1", "3", "2"])
def test_a_packer_reads_no_planes_of_another_codec(frames, packing):
    [first, *_] = frames()
    planes = exact_planes(SHAPE).scaler(first, converter_of()).scale(first)
    packed, out = Packer(UTVIDEO, SHAPE).pack(planes), np.zeros((48, 64, 3), np.uint8)
    if packing == UTVIDEO:
        Packer(packing, SHAPE).unpack(packed, out)
        assert np.array_equal(out, converter_of().convert(first, None))
    else:
        with pytest.raises(Exception, match="is not"):
            Packer(packing, SHAPE).unpack(packed, out)
