"""Addresses of sources, from texts, folders, globs and lists."""

from fractions import Fraction
from pathlib import Path

import pytest

from headrace.live.address import (
    CameraAddress,
    FileAddress,
    NetworkAddress,
    PatternAddress,
    parse_addresses,
)

FILES = {"a.mp4": "a.mp4", "no such/clip": "no such/clip", "./0": "0"}
CAMERAS = {"0": "/dev/video0", "12": "/dev/video12", "/dev/video3": "/dev/video3"}
CHANGED = {"RTSPS://u:p@H:32/X?y=1": "rtsps://u:p@H:32/X?y=1", " https://h/a.ts ": "https://h/a.ts"}
UNCHANGED = ("rtsp://camera/live", "http://[::1]:80/a.ts", "udp://@:1234", "udp://239.0.0.1:1234")
NTSC = Fraction(30000, 1001)
PATTERN = PatternAddress(size=(96, 128), rate=NTSC, seconds=Fraction(3, 2), seed=7)
ADDRESSES = {
    **{text: FileAddress(path=Path(path)) for text, path in FILES.items()},
    **{text: CameraAddress(device=Path(path)) for text, path in CAMERAS.items()},
    **{text: NetworkAddress(url=url) for text, url in CHANGED.items()},
    **{url: NetworkAddress(url=url) for url in UNCHANGED},
    **{
        "test://": PatternAddress(),
        "test://?size=96x128&rate=30000/1001&seconds=1.5&seed=7": PATTERN,
    },
}


@pytest.mark.parametrize(("text", "address"), ADDRESSES.items())
def test_a_text_is_an_address(text, address):
    assert parse_addresses([text]) == [address]


def test_a_folder_or_glob_stands_for_its_videos(tmp_path):
    for name in ("b.mp4", "a.mp4", "c.txt", "d.mkv"):
        (tmp_path / name).touch()
    assert _names(parse_addresses([tmp_path])) == ["a.mp4", "b.mp4", "d.mkv"]
    assert _names(parse_addresses([str(tmp_path / "*.mp4")])) == ["a.mp4", "b.mp4"]
    (tmp_path / "a[1].mp4").touch()
    assert _names(parse_addresses([str(tmp_path / "a[1].mp4")])) == ["a[1].mp4"]


def test_a_list_gives_its_sources_in_order(tmp_path):
    (tmp_path / "in.mp4").touch()
    streams = tmp_path / "all.streams"
    streams.write_text("# cameras\nrtsp://h/a#1 # the door\n\n0\nin.mp4 # a file\n")
    assert parse_addresses([streams, "1"]) == [
        NetworkAddress(url="rtsp://h/a#1"),
        CameraAddress(device=Path("/dev/video0")),
        FileAddress(path=tmp_path / "in.mp4"),
        CameraAddress(device=Path("/dev/video1")),
    ]


def test_a_name_hides_secrets_and_the_name_of_a_pattern_is_its_address():
    address = NetworkAddress(url="rtsp://user:pass@camera/live?token=abc")
    assert address.name == "rtsp://***@camera/live?token=***"
    assert repr(address) == f"NetworkAddress({address.name})" == str(address)
    pattern = PatternAddress(size=(64, 96), seconds=Fraction(2), seed=5)
    assert parse_addresses([pattern.name]) == [pattern]


def _names(addresses):
    return [address.path.name for address in addresses]
