"""Where a run may be shown."""

import pytest

from headrace.errors import ConfigError
from headrace.sinks.web.options import WebOptions


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"port": -1}, "a port is 0 (any that is free) to 65535, got -1"),
        ({"port": 65536}, "a port is 0 (any that is free) to 65535, got 65536"),
        (
            {"address": "cam.example"},
            "an address is an IP address of this machine, or localhost, got 'cam.example'",
        ),
        (
            {"token": "short"},
            "a token needs 16 characters or more, got 5; leave it out to have one made",
        ),
        (
            {"token": "a token of 16 & more"},
            "a token is made of letters, digits and - . _ ~, so that an address can hold it; give "
            "another one",
        ),
        (
            {"hosts": ("https://cam.example",)},
            "a host is a name without scheme, port and path, got 'https://cam.example'; give it as "
            "in camera.example.org",
        ),
        (
            {"silent_seconds": 0.0},
            "pictures_per_second and silent_seconds must be > 0, got 15 and 0",
        ),
    ],
)
def test_what_cannot_be_is_said_at_once(changes, words):
    with pytest.raises(ConfigError) as caught:
        WebOptions(**changes)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("address", "is_local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("::", False)],
)
def test_this_machine_alone_needs_no_token(address, is_local):
    assert WebOptions(address=address).is_local == is_local


def test_the_token_is_in_no_text():
    assert "a-token-of-a-test" not in repr(WebOptions(token="a-token-of-a-test-0123"))
