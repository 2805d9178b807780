"""Tests of benchmarks/chart.py."""

from xml.etree import ElementTree

import pytest

from benchmark_fakes import row
from benchmarks.chart import THEMES, bars, picture

LINES = [
    [row("headrace", [1140]), row("headrace", [900], kind="cam")],
    [row("decord", [1100])],
    [row("opencv", failure="no decoder")],
    [row("spdl", [50])],
]
NAMES = {"headrace": "**headrace**", "decord": "decord & more", "opencv": "OpenCV"}


@pytest.mark.parametrize("theme", THEMES)
def test_each_entrant_that_was_timed_and_has_a_name_has_its_bars(theme: str) -> None:
    chart = ElementTree.fromstring(bars("Frames", LINES, NAMES, theme))
    texts = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [
        *("web", "cam", "frames/s"),
        *("headrace", "1,140", "900", "decord & more", "1,100"),
    ]


def test_a_picture_has_one_for_light_pages_and_one_for_dark_ones() -> None:
    found = picture("speed", 'of "all"', "../results")
    assert 'srcset="../results/speed-dark.svg"' in found
    assert '<img alt="of &quot;all&quot;" src="../results/speed-light.svg">' in found
