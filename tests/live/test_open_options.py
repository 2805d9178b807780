"""FFmpeg options of sources: a stream cannot make FFmpeg open anything else."""

from pathlib import Path

import pytest

from headrace.errors import OpenError
from headrace.live.address import parse_addresses
from headrace.live.open_options import SourceOptions, camera_problem, cameras_here, ffmpeg_options
from live.reading import Read


def options_of(text, **options):
    return ffmpeg_options(parse_addresses([text])[0], SourceOptions(**options))


PROTOCOLS = {
    **{"rtsp://h/x": "rtsp,rtp,udp,tcp", "rtsps://h/x": "rtsp,rtsps,rtp,udp,tcp,tls"},
    **{"http://h/x": "http,https,tcp,tls", "https://h/x": "https,tcp,tls", "udp://h:1": "udp"},
}


@pytest.mark.parametrize(("text", "protocols"), PROTOCOLS.items())
def test_only_the_protocols_of_its_scheme_are_allowed(text, protocols):
    kind, options = options_of(text)
    assert options["protocol_whitelist"] == protocols
    formats = options.get("format_whitelist", kind).split(",")
    assert not {"hls", "concat", "sdp", "image2", "lavfi"} & set(formats)


def test_rtsp_uses_tcp_a_small_probe_and_a_timeout():
    _, options = options_of("rtsp://h/x", open_timeout_seconds=2.5)
    assert options["rtsp_transport"] == "tcp"
    assert options["timeout"] == "2500000"
    assert int(options["probesize"]) < 100_000


def test_a_missing_camera_is_an_error_with_the_existing_ones():
    with pytest.raises(OpenError) as raised:
        Read("97").take(1)
    message = str(raised.value)
    assert message.startswith("cannot open /dev/video97: the device does not exist; ")
    assert "cameras here: " in message or "no camera is connected" in message
    assert "--wait-for-source" in message


def test_cameras_are_sorted_by_number(tmp_path):
    for name in ("video10", "video2", "video2-meta", "vcs"):
        (tmp_path / name).touch()
    assert [Path(device).name for device in cameras_here(tmp_path)] == ["video2", "video10"]


def test_errors_of_cameras_are_explained():
    problems = {16: "another program uses the camera", 13: "permission denied", 19: "is gone"}
    for number, words in problems.items():
        assert words in camera_problem(OSError(number, "x")).words
    assert camera_problem(OSError(5, "x")) is None
