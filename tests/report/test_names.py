"""Names of sources in a narrow column."""

import pytest

from headrace.report.names import short_names


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["/data/a/door.mp4", "yard.mp4"], ["door.mp4", "yard.mp4"]),
        (["/data/a/cam.mp4", "/data/b/cam.mp4"], ["0: cam.mp4", "1: cam.mp4"]),
        (["/dev/video0", "test://?seed=1"], ["/dev/video0", "test://?seed=1"]),
        (
            ["rtsp://***@192.168.100.200:554/Streaming/Channels/101"],
            ["rtsp://192…treaming/Channels/101"],
        ),
    ],
)
def test_they_are_short_and_differ(names, expected):
    assert short_names(names) == expected
