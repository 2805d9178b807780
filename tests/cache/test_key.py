"""Keys: equal when all that a result was made of is, and able to say what differs."""

import copy
import hashlib
import json
import struct
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

from cache.made import GROUPS, arrays, key, same
from decode.backends import TORCHCODEC, needs_torchcodec
from headrace.cache.entry import MAX_ARRAYS, Entry, decode, encode
from headrace.cache.facts import decode_facts
from headrace.cache.key import ChunkKey, Difference, differences
from headrace.cache.model_facts import model_facts, numerics_facts, preprocess_facts
from headrace.decode.decoding import Decoding
from headrace.errors import CacheError, ConfigError
from headrace.models.compute import Compute
from headrace.preprocess.spec import InputSpec

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**127), 2**127)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
GROUP = st.dictionaries(st.text(max_size=5), PLAIN, max_size=4)


def test_the_digest_of_a_key_stays_what_it_is():
    """A change of it would make every cache there is worthless: raise FORMAT on purpose instead."""
    assert key().text == (
        '{"content":"sha256:00","decode":{"backend":"pyav"},"format":1,"kind":"features 1",'
        '"model":{"name":"resnet18","weights":"sha256:11"},"numerics":{"precision":"float32"},'
        '"preprocess":{"crop":224,"mean":[0.5,0.25]},"selection":{"pts":[0,512,1024]}}'
    )
    assert key().digest == "e7b2082635957f64f011607659e40fdc881408e4c396cb958c7784b4cce4ac13"


def test_the_order_in_which_things_are_named_does_not_count():
    turned = key(model={"weights": "sha256:11", "name": "resnet18"})
    assert turned == key()
    assert hash(turned) == hash(key())


def test_numbers_of_numpy_and_tuples_are_what_they_hold():
    assert key(selection={"pts": tuple(np.array([0, 512, 1024]))}) == key()


@pytest.mark.parametrize("name", ["kind", "content", *GROUPS])
def test_everything_in_a_key_counts(name):
    other = "other" if name in ("kind", "content") else {"other": 1}
    assert key(**{name: other}) != key()
    assert key(**{name: other}).digest != key().digest


@given(GROUP, GROUP)
def test_keys_are_equal_exactly_when_their_texts_are_and_survive_as_text(first, second):
    one, other = key(model=first), key(model=second)
    assert ChunkKey.of_text(one.text) == one
    assert (one == other) == (one.text == other.text) == (differences(one, other) == [])


def test_a_key_does_not_follow_what_it_was_made_from():
    given = {"pts": [1]}
    made = key(selection=given)
    before = copy.copy(made.digest)
    given["pts"].append(2)
    assert made.selection == {"pts": [1]}
    assert made.digest == before


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": float("nan")}, r"model\.a of a cache key must be text"),
        ({"a": [1, float("inf")]}, r"model\.a\[1\]"),
        ({"a": b"x"}, r"model\.a"),
        ({"a": 10**5000}, r"model\.a"),
        ({"a": {1}}, r"model\.a"),
        ({1: 2}, "model of a cache key"),
        ({"a": {1: 2}}, r"model\.a"),
        ([1], "model of a cache key must be a mapping"),
    ],
)
def test_what_cannot_be_told_again_exactly_is_refused_by_its_name(value, said):
    with pytest.raises(ConfigError, match=said):
        key(model=value)


@pytest.mark.parametrize("name", ["kind", "content"])
def test_a_key_of_nothing_is_refused(name):
    with pytest.raises(ConfigError, match=f"{name} of a cache key must be text"):
        key(**{name: ""})


def test_differences_name_the_place_and_both_values():
    other = key(
        selection={"pts": [0, 513, 1024]},
        preprocess={"crop": 224.0, "mean": [0.5, 0.25, 0.5]},
        numerics={},
    )
    assert differences(key(), other) == [
        Difference("numerics.precision", "float32", None),
        Difference("preprocess.crop", 224, 224.0),
        Difference("preprocess.mean", [0.5, 0.25], [0.5, 0.25, 0.5]),
        Difference("selection.pts[1]", 512, 513),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[]", "{}", "[" * 100_000, b"\xff\xfe", key().text[:-1], '{"kind":"x"}'],
    ids=str,
)
def test_text_of_no_key_is_refused(text):
    with pytest.raises(ConfigError, match="a cache key must"):
        ChunkKey.of_text(text)


def test_a_key_of_another_format_is_refused():
    facts = {**json.loads(key().text), "format": 2}
    with pytest.raises(ConfigError, match="another format"):
        ChunkKey.of_text(json.dumps(facts))


SPEC = InputSpec(resize=256, crop=224, mean=(0.5,) * 3, std=(0.2,) * 3, interpolation="bilinear")


@pytest.mark.parametrize(
    "changed",
    [
        {"resize": 232},
        {"crop": 192},
        {"mean": (0.4, 0.5, 0.5)},
        {"std": (0.2, 0.2, 0.3)},
        {"interpolation": "bicubic"},
        {"antialias": False},
        {"num_frames": 16},
    ],
)
def test_all_of_preprocessing_counts(changed):
    one, other = (preprocess_facts("medium", spec) for spec in (SPEC, replace(SPEC, **changed)))
    assert key(preprocess=one) != key(preprocess=other)
    assert key(preprocess=one) == key(preprocess=preprocess_facts("medium", SPEC))


def test_the_level_of_preprocessing_counts():
    found = {key(preprocess=preprocess_facts(at, SPEC)) for at in ("simple", "medium", "complex")}
    assert len(found) == 3


def test_how_frames_are_decoded_counts_and_not_on_which_gpu():
    def made(decoding, on_error="raise"):
        return key(decode=decode_facts(decoding, on_error=on_error))

    assert made(Decoding()) != made(Decoding.on_gpu(0)) == made(Decoding.on_gpu(1))
    assert made(Decoding()) != made(Decoding(), on_error="conceal")


@needs_torchcodec
def test_what_torchcodec_decoded_is_kept_apart_and_under_its_version():
    facts = decode_facts(TORCHCODEC, on_error="raise")
    assert (facts["backend"], facts["version"]) == ("torchcodec", version("torchcodec"))
    assert key(decode=facts) != key(decode=decode_facts(Decoding(), on_error="raise"))


def test_model_layers_and_weights_count():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    facts = [
        model_facts("a", first, ["0"]),
        model_facts("b", first, ["0"]),
        model_facts("a", second, ["0"]),
        model_facts("a", first, ["0", "1"]),
    ]
    assert len({key(model=each) for each in facts}) == 4


def test_numerics_count_and_how_a_model_is_warmed_up_does_not():
    plain = numerics_facts(Compute())
    assert numerics_facts(Compute(warmup_batches=5)) == plain
    for other in (
        Compute(precision="bfloat16"),
        Compute(compile=True),
        Compute(channels_last=True),
    ):
        assert key(numerics=numerics_facts(other)) != key(numerics=plain)


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
