"""Sizes and durations are parsed in their usual forms; other texts are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.units import parse_bytes, parse_seconds

LONG = "9" * 400


@pytest.mark.parametrize(
    ("size", "number"),
    [
        ("1GiB", 2**30),
        ("256MiB", 2**28),
        ("1.5 GiB", 3 * 2**29),
        ("2GB", 2 * 10**9),
        (" 64 kib ", 2**16),
        ("1048576", 2**20),
        ("17B", 17),
        (1, 1),
    ],
)
def test_a_size_is_parsed_as_bytes(size, number):
    assert parse_bytes(size) == number


@given(st.integers(1, 10**15))
def test_a_number_of_bytes_is_unchanged(number):
    assert parse_bytes(number) == parse_bytes(str(number)) == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("1.5s", 1.5), ("2 min", 120), ("12h", 43_200), ("30d", 2_592_000)],
)
def test_a_duration_is_parsed_as_seconds(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


NO_SIZES = ("", "lots", "-1GiB", "1 GiB RAM", "1,5GiB", "1e9", "5XB", LONG, f"{LONG[:300]}TiB")
NO_SPANS = ("", "5", "-1s", "0s", "1 month", "1,5s", "1h30min", LONG + "s", 5)


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        *((parse_bytes, text, 'a size must read like "256MiB"') for text in NO_SIZES),
        *((parse_bytes, text, "at least 1 byte") for text in (0, "0GiB", "0.1B")),
        *((parse_seconds, text, 'a duration must read like "200ms"') for text in NO_SPANS),
    ],
)
def test_other_texts_are_refused_with_an_example(parse, text, said):
    with pytest.raises(ConfigError, match=said):
        parse(text)
