"""Addresses of servers: understood, or refused without showing what may be a password."""

import pytest

from headrace.cache.redis_address import RedisAddress
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host", "redis://host"),
        ("redis://:secret@host:6380/3", "redis://host:6380/3"),
        ("rediss://me:secret@host", "rediss://host"),
        ("redis://[::1]:6379", "redis://[::1]:6379"),
        ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
        ("unix://:secret@/run/redis.sock", "unix:///run/redis.sock"),
        ("rediss://host?ssl_ca_certs=/my/ca.pem", "rediss://host"),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    address = RedisAddress.of(url)
    assert address.url == url
    assert (str(address), repr(address)) == (shown, f"RedisAddress({shown!r})")


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "unix://",
        "redis://:secret/word@host",
        "redis://:secret?word@host",
        "redis://:secret#word@host",
        "redis://:secret@host:port",
        "redis://:secret@host/name",
        "redis://:secret@[host",
        "redis://host?decode_responses=secret",
        "redis://host?db=secret",
        "http://:secret@host",
    ],
)
def test_what_is_no_address_is_refused_and_not_shown(url):
    with pytest.raises(ConfigError) as caught:
        RedisAddress.of(url)
    assert "secret" not in str(caught.value)
