"""Secrets in addresses are masked; the rest stays readable."""

import random

import pytest

from headrace.redaction import is_ambiguous, masked, without_secrets

SECRET = "QXZJVK6789ÄλЖ密🔑"
"""Characters of the passwords of these tests, and of no other part of an address."""
SPECIAL = "@/:?#%&= '\"<>[]\\;,+!$|~^`{}()*"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rtsp://camera:554/live", "rtsp://camera:554/live"),
        ("rtsp://[::1]:554/live", "rtsp://[::1]:554/live"),
        ("rtsp://user:pass@camera/live", "rtsp://***@camera/live"),
        ("rtsp://user:pass@[::1]:554/live", "rtsp://***@[::1]:554/live"),
        ("rtsp://user@camera/live", "rtsp://***@camera/live"),
        ("rtsp://a:b@c@camera/live", "rtsp://***@camera/live"),
        ("rtsp://user:pa/ss@camera/live", "rtsp://***@camera/live"),
        ("rtsp://user:pa?ss@camera/live", "rtsp://***@camera/live"),
        ("rtsp://bob:p@ss/w@host/cam", "rtsp://***@host/cam"),
        ("rtsp://bob:p@ss/w@host/cam?x=1", "rtsp://***@host/cam?x=1"),
        ("rtsp://bob:12/34@host/cam", "rtsp://***@host/cam"),
        ("rtsp://DOMAIN/bob:pass@host/cam", "rtsp://***@host/cam"),
        ('rtsp://bob:it\'s "so" <x>@host/cam', "rtsp://***@host/cam"),
        ("--source=rtsp://bob:p@ss/w@host/cam", "--source=rtsp://***@host/cam"),
        ("rtsp:/bob:p@ss/w@host/cam", "rtsp:/***@host/cam"),
        ("rtsp://bob:p@ss?w@host/cam", "rtsp://***"),
        ("rtsp://bob:12?w@host/cam", "rtsp://***"),
        ("http://host:80/p?mail=a@b", "http://***"),
        ("http://host/live@2/x", "http://host/live@2/x"),
        ("rtsp://bob:secret", "rtsp://bob:***"),
        ("rtsp://h/p?channel=1&subtype=0", "rtsp://h/p?channel=1&subtype=0"),
        ("http://h/p?user=me&pwd=x&ch=2", "http://h/p?user=***&pwd=***&ch=2"),
        ("http://h/p?usr=me&pw=x", "http://h/p?usr=***&pw=***"),
        ("http://h/p?pwd=a&b#c", "http://h/p?pwd=***&***#***"),
        ("http://h/p?a=1?pwd=x", "http://h/p?a=1?pwd=***"),
        ("http://h/p?id=0123456789abcdef0", "http://h/p?id=***"),
        ("http://h/p?0123456789abcdef0", "http://h/p?***"),
        ("udp://@:1234", "udp://***@:1234"),
        ("test://?size=480x640&rate=30&seed=1", "test://?size=480x640&rate=30&seed=1"),
        ("clips/a@b.mp4?", "clips/a@b.mp4?"),
        ("C:/clips/a@b.mp4", "C:/clips/a@b.mp4"),
    ],
)
def test_masks(text, shown):
    assert masked(text) == shown
    assert masked(shown) == shown


def addresses(count):
    """Yield random addresses and their passwords."""
    chance = random.Random(20240)
    users = ("bob", "", "admin", "dom/bob", "a.b-c", "me@home", "0")
    hosts = ("host", "cam.lan", "10.0.0.5", "[::1]", "[fe22::1%25eth0]")
    paths = ("", "/", "/cam", "/live/main@2", "/a:b/c", "/?t=1", "/p?mail=a@b.c&x=1", "/x#verify")
    for _ in range(count):
        letters = chance.choices(SECRET + SPECIAL, k=chance.randint(3, 24))
        password = "".join([*letters, *chance.choices(SECRET, k=3)])
        port = chance.choice(("", "", ":554", ":5000", ":"))
        start = chance.choice(("rtsp", "RTSPS", "http", "https", "udp", "redis")) + "://"
        login = f"{chance.choice(users)}:{password}@"
        yield start + login + chance.choice(hosts) + port + chance.choice(paths), password


def test_no_character_of_10_000_passwords_is_shown():
    for address, _ in addresses(10_000):
        for text in (address, f"--source={address}", address.replace("://", ":/")):
            shown = masked(text)
            assert not set(shown) & set(SECRET), (text, shown)
            assert masked(shown) == shown


def test_no_character_of_1_000_passwords_is_shown_in_a_message():
    for address, _ in addresses(1_000):
        for message in (f"No such file: {address}", f"got {address!r}", f"cannot open '{address}'"):
            assert not set(without_secrets(message, ["run", address])) & set(SECRET)


def test_the_host_is_shown_if_the_password_is_escaped():
    for host in ("host", "10.0.0.5:554", "[::1]:554"):
        for path in ("", "/cam", "/cam?channel=1", "/a/b#verify"):
            url = f"rtsp://bob:p%40ss%2Fw@{host}{path}"
            assert masked(url) == f"rtsp://***@{host}{path}"


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("rtsp://bob:p@ss/w@host/cam", True),
        ("rtsp://bob:12/34@host/cam", True),
        ("rtsp://bob:p%40ss@host/cam", False),
        ("rtsp://bob:p@ss@host/cam", False),
        ("rtsp://host/live@2", False),
    ],
)
def test_an_ambiguous_address_is_detected(address, found):
    assert is_ambiguous(address) is found
