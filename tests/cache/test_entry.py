"""Entries come back as they were, and damage at any place is told."""

import hashlib
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cache.made import arrays, key, same
from headrace.cache.entry import MAX_ARRAYS, Entry, decode, encode
from headrace.errors import CacheError, ConfigError

NUMBERS = st.sampled_from(
    ["bool", "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">i8"]
)
RESULT = st.dictionaries(
    st.text(max_size=8),
    hnp.arrays(NUMBERS, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)),
    min_size=1,
    max_size=4,
)
SAMPLE = encode(Entry(key(), arrays()))


@given(RESULT)
def test_what_goes_in_comes_out(result):
    found = decode(encode(Entry(key(), result)), key().digest)
    assert found.key == key()
    assert list(found.arrays) == list(result)
    for name, array in found.arrays.items():
        assert array.dtype == result[name].dtype.newbyteorder("<")
        assert array.shape == result[name].shape
        np.testing.assert_array_equal(array, result[name])
        assert array.flags.writeable


def test_the_same_result_has_the_same_bytes_however_it_lies_in_memory():
    turned = {name: np.asfortranarray(array) for name, array in arrays().items()}
    assert encode(Entry(key(), turned)) == SAMPLE


@given(st.integers(0, len(SAMPLE) - 1), st.integers(1, 255))
def test_a_byte_that_changed_anywhere_is_told(place, change):
    damaged = bytearray(SAMPLE)
    damaged[place] ^= change
    with pytest.raises(CacheError):
        decode(bytes(damaged))


@given(st.integers(0, len(SAMPLE) - 1), st.binary(max_size=40))
def test_an_entry_that_was_cut_or_is_longer_is_told(length, more):
    for content in (SAMPLE[:length], SAMPLE + b"\0" + more, more):
        with pytest.raises(CacheError):
            decode(content)


def test_the_entry_of_another_key_is_told():
    with pytest.raises(CacheError, match="another key"):
        decode(SAMPLE, key(1).digest)


def forged(tables: object, payload: bytes = b"", text: object = None) -> bytes:
    """An entry whose checksum is right and whose header says what it likes."""
    header = json.dumps({"key": text or key().text, "arrays": tables}).encode()
    body = b"HRC1" + struct.pack("<I", len(header)) + header + payload
    return body + hashlib.blake2b(body, digest_size=16).digest()


@pytest.mark.parametrize(
    "tables",
    [
        [],
        {},
        None,
        [None],
        [{"name": "a", "dtype": "<f4", "shape": [2**62]}],
        [{"name": "a", "dtype": "<f4", "shape": [0, 2**62, 2**62]}],
        [{"name": "a", "dtype": "<f4", "shape": [2**200]}],
        [{"name": "a", "dtype": "<f4", "shape": [-1, -2]}],
        [{"name": "a", "dtype": "<f4", "shape": [2.0]}],
        [{"name": "a", "dtype": "<f4", "shape": [True]}],
        [{"name": "a", "dtype": "<f4", "shape": "8"}],
        [{"name": "a", "dtype": "|O", "shape": [1]}],
        [{"name": "a", "dtype": ["<f4"], "shape": [2]}],
        [{"name": 1, "dtype": "<f4", "shape": [2]}],
        [{"name": "a", "dtype": "<f4", "shape": [1]}],
        [{"name": "a", "dtype": "<f4", "shape": [1] * 70}],
        [{"name": "a", "dtype": "<f4", "shape": [1]}] * 2,
        [{"name": "a", "dtype": "<f4"}],
    ],
    ids=str,
)
def test_a_header_that_lies_takes_no_memory(tables):
    with pytest.raises(CacheError):
        decode(forged(tables, bytes(8)))


def test_a_header_longer_than_the_entry_is_told():
    body = b"HRC1" + struct.pack("<I", 2**32 - 1) + bytes(8)
    with pytest.raises(CacheError, match="longer than it is"):
        decode(body + hashlib.blake2b(body, digest_size=16).digest())


@pytest.mark.parametrize("text", ["x", 7, [1], key().text.replace('"format":1', '"format":9')])
def test_a_header_without_its_key_is_told(text):
    with pytest.raises(CacheError):
        decode(forged([{"name": "a", "dtype": "<f4", "shape": [2]}], bytes(8), text))


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"a": np.array(["text"])},
        {"a": np.array([object()])},
        {"a": np.zeros(2, "c8")},
        {str(k): np.zeros(1) for k in range(MAX_ARRAYS + 1)},
    ],
)
def test_what_cannot_be_kept_is_refused(result):
    with pytest.raises(ConfigError):
        encode(Entry(key(), result))


def test_a_key_that_is_too_long_is_refused():
    with pytest.raises(ConfigError, match="fewer frames"):
        encode(Entry(key(selection={"pts": list(range(10**6))}), arrays()))


def test_results_are_the_same_only_with_all_their_numbers():
    assert same(arrays(), arrays())
    assert not same(arrays(), arrays(1))
