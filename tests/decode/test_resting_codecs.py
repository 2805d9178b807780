"""Codecs that rest are given to whoever asks for the same, within their bytes."""

import os

import av
import pytest
from av.codec.context import CodecContext

from headrace.decode.resting_codecs import RestingCodecs


@pytest.fixture
def codec():
    """Return a function that makes a codec."""

    def make():
        codec = av.CodecContext.create("h264", "r")
        codec.open()
        return codec

    return make


def test_the_one_that_was_used_last_is_given_and_none_twice(codec):
    resting, first, second = RestingCodecs(), codec(), codec()
    for each in (first, second):
        resting.put("a", each, 1)
    assert resting.take("b", CodecContext) is None
    assert [resting.take("a", CodecContext) for _ in range(3)] == [second, first, None]


def test_those_that_rest_longest_make_room(codec):
    resting = RestingCodecs(most_bytes=10)
    for look, num_bytes in (("a", 4), ("b", 4), ("c", 5), ("d", 11)):
        resting.put(look, codec(), num_bytes)
        if look == "c":
            assert resting.take("a", CodecContext) is None
    assert [resting.take(look, CodecContext) is not None for look in "abcd"] == [False] * 4
    resting.put("e", codec(), 10)
    assert resting.take("e", CodecContext) is not None


def test_all_are_released_at_once(codec):
    resting = RestingCodecs()
    assert not resting.release()
    resting.put("a", codec(), 1)
    assert resting.release()
    assert resting.take("a", CodecContext) is None


def test_a_forked_process_has_none_of_its_parents(codec, monkeypatch):
    resting = RestingCodecs()
    kept = codec()
    resting.put("a", kept, 1)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        assert resting.take("a", CodecContext) is None
        assert not resting.release()
    assert resting.take("a", CodecContext) is kept
