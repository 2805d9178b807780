"""Numbers read well at every size, and names in a narrow column."""

import pytest

from headrace.report.names import short_names
from headrace.report.numbers import (
    counted,
    decimal,
    gibibytes,
    megabytes,
    milliseconds,
    percent,
    ratio,
    seconds,
    shortened,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (0.0469, "0.047"),
        (0.9999, "1.00"),
        (3.294, "3.29"),
        (9.996, "10.0"),
        (69.55, "69.5"),
        (99.96, "100"),
        (1234.4, "1,234"),
        (-12.34, "-12.3"),
    ],
)
def test_a_decimal_has_three_digits(number: float, text: str) -> None:
    assert decimal(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 s"),
        (0.024, "0.024 s"),
        (4.93, "4.9 s"),
        (119.94, "119.9 s"),
        (119.96, "2 min 00 s"),
        (309, "5 min 09 s"),
        (3599.6, "1 h 00 min"),
        (3725, "1 h 02 min"),
    ],
)
def test_a_length_of_time_has_fitting_units(number: float, text: str) -> None:
    assert seconds(number) == text


def test_every_number_has_its_unit() -> None:
    assert milliseconds(229.8) == "230 ms"
    assert milliseconds(None) == "n too small"
    assert percent(0.974) == "97 %"
    assert (percent(0), percent(0.003), percent(0.0001)) == ("0 %", "0.3 %", "<0.1 %")
    assert (percent(1), percent(0.997), percent(0.9999)) == ("100 %", "99.7 %", ">99.9 %")
    assert megabytes(23_413_500) == "23.4 MB"
    assert gibibytes(32 << 30) == "32.0 GiB"
    assert (counted(1, "step"), counted(4500, "step")) == ("1 step", "4,500 steps")
    assert ratio((2.912, 1.0, 9.655)) == "2.9 : 1.0 : 9.7"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("a.mp4", "a.mp4"),
        ("videos/train/a.mp4", "videos/train/a.mp4"),
        ("/data/videos/train/a.mp4", "…/videos/train/a.mp4"),
        ("a_name_that_is_longer_than_all_of_it.mp4", "…er_than_all_of_it.mp4"),
    ],
)
def test_a_long_path_is_shown_by_its_end(path, shown):
    assert shortened(path, 22) == shown


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
def test_names_of_sources_are_short_and_differ(names, expected):
    assert short_names(names) == expected
