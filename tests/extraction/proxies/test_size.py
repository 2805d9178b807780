"""The size of proxies."""

import pytest

from headrace.errors import ConfigError
from headrace.extraction.proxies.size import ExactSize, ShorterSide, proxy_size


@pytest.mark.parametrize(
    ("text", "upright", "size"),
    [
        ("256", (720, 1280), (256, 456)),
        ("256", (1280, 720), (456, 256)),
        ("256", (480, 640), (256, 342)),
        ("256", (200, 300), (200, 300)),
        ("256", (75, 53), (74, 52)),
        ("480", (480, 853), (480, 852)),
        ("256", (1, 9), (2, 8)),
        ("256x256", (720, 1280), (256, 256)),
        (" 64×48 ", (10, 10), (64, 48)),
    ],
)
def test_sides_are_even_and_the_shorter_one_is_the_asked(text, upright, size):
    assert proxy_size(text).of(upright) == size


@pytest.mark.parametrize("size", [ShorterSide(256), ExactSize(256, 456)])
def test_a_size_reads_as_it_is_written(size):
    assert proxy_size(str(size)) == size


@pytest.mark.parametrize("text", ["", "x", "256x", "-2", "255", "0", "8194", "256x255", "1e2"])
def test_what_is_no_size_is_said(text):
    with pytest.raises(ConfigError, match="prox"):
        proxy_size(text)
