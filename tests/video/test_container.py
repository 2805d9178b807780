"""What may be opened as video, and what is refused with which words."""

import os
from fractions import Fraction

import psutil
import pytest

from headrace.errors import MediaError, OpenError, ScanError
from headrace.testing import damage, damage_mp4
from headrace.testing.synth import SynthClip, write_clip, write_streams
from headrace.testing.synth_audio import write_audio
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("good") / "good", SynthClip(b_frames=2))


def make(kind, good, path):
    """Write one bad file."""
    match kind:
        case "empty":
            path.write_bytes(b"")
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "dangling link":
            path.symlink_to(path.parent / "nowhere")
        case "text":
            path.write_text("just words " * 100)
        case "html":
            path.write_text("<!DOCTYPE html><html>404 Not Found</html>")
        case "jpeg":
            path.write_bytes(b"\xff\xd8\xff\xe0" + b"\0" * 500)
        case "random bytes":
            path.write_bytes(bytes((k * 97 + k // 256 * 31) % 256 for k in range(5000)))
        case "hls":
            damage.hls_text(path)
        case "ffconcat":
            damage.ffconcat_text(path)
        case "audio":
            write_audio(path, seconds=Fraction(1, 2))
        case "cover art":
            write_audio(path, seconds=Fraction(1, 2), cover_art=True)
        case "huge sample count":
            damage_mp4.lie_about_sample_count(good, path)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("missing", "no such file or directory"),
        ("empty", "the file is empty (0 bytes)"),
        ("folder", "it is a folder"),
        ("pipe", "it is not a regular file"),
        ("dangling link", "no such file or directory"),
        ("text", "no video container was recognised in it"),
        ("html", "it is an HTML page"),
        ("jpeg", "it is a JPEG picture"),
        ("random bytes", "no video container was recognised in it"),
        ("hls", "it is an HLS playlist, a text that names other files"),
        ("ffconcat", "it is an ffconcat script, a text that names other files"),
        ("audio", "it has no video stream (1 audio)"),
        ("cover art", "it has no video stream (1 audio, 1 video, the video being cover art)"),
        ("huge sample count", "no video container was recognised in it"),
    ],
)
def test_what_is_no_video_is_refused_in_one_line(kind, found, good, tmp_path):
    path = tmp_path / ("sound.mp3" if kind in ("audio", "cover art") else "bad.mp4")
    make(kind, good, path)
    with pytest.raises(OpenError) as caught:
        StreamIndex.scan(path)
    message = str(caught.value)
    assert message.startswith(f"cannot open {path}: {found}")
    assert "\n" not in message
    assert caught.value.source == str(path)


def test_a_file_cut_off_inside_its_header_is_refused(good, tmp_path):
    path = damage.truncate(good, tmp_path / "cut.mp4", keep_fraction=0.02)
    with pytest.raises(MediaError, match=f"cannot (open|index) {path}: "):
        StreamIndex.scan(path)


def test_a_sample_count_that_lies_takes_no_memory_for_it(good, tmp_path):
    path = damage_mp4.lie_about_sample_count(good, tmp_path / "lie.mp4", count=60_000_000)
    before = psutil.Process().memory_info().rss
    with pytest.raises(ScanError, match="holds no packet"):
        StreamIndex.scan(path)
    assert psutil.Process().memory_info().rss - before < 100 << 20


def test_dimensions_that_lie_in_the_container_do_not_reach_the_frames(good, tmp_path):
    path = damage_mp4.lie_about_dimensions(good, tmp_path / "lie.mp4")
    assert StreamIndex.scan(path).info.upright_size == (96, 128)


@pytest.mark.parametrize(
    "name", ["-dash.mp4", "sp ace\nline.mp4", "ünï-кадр-帧.mp4", "[*]?.mp4", "a:b|c.mp4", "#1%.mp4"]
)
def test_any_file_name_is_just_a_name(name, good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(good.read_bytes())
    assert len(StreamIndex.scan(name)) == 48


def test_a_chosen_stream_is_the_one_read(tmp_path):
    clips = [SynthClip(num_frames=5), SynthClip(num_frames=9, size=(64, 64))]
    path = write_streams(tmp_path / "two", clips)
    assert len(StreamIndex.scan(Source(path, stream=0))) == 5
    assert len(StreamIndex.scan(Source(path, stream=1))) == 9
    with pytest.raises(OpenError, match=r"stream 7 was asked for; its video streams are 0 or "):
        StreamIndex.scan(Source(path, stream=7))
