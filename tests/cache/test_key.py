"""Keys are equal if all inputs of a result are; entries are intact or an error."""

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

from cache.made import GROUPS, arrays, key
from decode.backends import TORCHCODEC, needs_torchcodec
from headrace import CacheError, DecoderConfig
from headrace.cache.key import CacheEntry, ChunkKey, KeyDifference, decode, differences, encode
from headrace.extraction.features import torchvision_model
from headrace.extraction.features.load_feature_model import numerics_facts
from headrace.extraction.features.model_signature import decode_facts
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


def test_the_digest_of_a_key_is_stable():
    """A change invalidates every existing cache: increase FORMAT instead."""
    assert key().text == (
        '{"content":"sha256:00","decode":{"backend":"pyav"},"format":1,"kind":"features 1",'
        '"model":{"name":"resnet18","weights":"sha256:11"},"numerics":{"precision":"float32"},'
        '"preprocess":{"crop":224,"mean":[0.5,0.25]},"selection":{"pts":[0,512,1024]}}'
    )
    assert key().digest == "e7b2082635957f64f011607659e40fdc881408e4c396cb958c7784b4cce4ac13"


def test_a_key_does_not_depend_on_the_order_of_names_or_on_sequence_types():
    reordered = key(model={"weights": "sha256:11", "name": "resnet18"})
    assert reordered == key() == key(selection={"pts": tuple(np.array([0, 512, 1024]))})
    assert hash(reordered) == hash(key())


@pytest.mark.parametrize("name", ["kind", "content", *GROUPS])
def test_a_key_depends_on_every_field(name):
    other = key(**{name: "other" if name in ("kind", "content") else {"other": 1}})
    assert (other != key(), other.digest != key().digest) == (True, True)


@given(GROUP, GROUP)
def test_keys_are_equal_if_their_texts_are_and_survive_as_text(first, second):
    first_key, second_key = key(model=first), key(model=second)
    assert ChunkKey.of_text(first_key.text) == first_key
    has_equal_text = first_key.text == second_key.text
    assert (first_key == second_key) == has_equal_text
    assert (differences(first_key, second_key) == []) == has_equal_text


def test_a_key_copies_its_values():
    selection = {"pts": [1]}
    chunk_key = key(selection=selection)
    digest = str(chunk_key.digest)
    selection["pts"].append(2)
    assert (chunk_key.selection, chunk_key.digest) == ({"pts": [1]}, digest)


def test_a_difference_has_the_path_and_both_values():
    preprocess = {"crop": 224.0, "mean": [0.5, 0.25, 0.5]}
    other = key(selection={"pts": [0, 513, 1024]}, preprocess=preprocess, numerics={})
    assert differences(key(), other) == [
        KeyDifference("numerics.precision", "float32", None),
        KeyDifference("preprocess.crop", 224, 224.0),
        KeyDifference("preprocess.mean", [0.5, 0.25], [0.5, 0.25, 0.5]),
        KeyDifference("selection.pts[1]", 512, 513),
    ]


SPEC = InputSpec(resize=256, crop=224, mean=(0.5,) * 3, std=(0.2,) * 3, interpolation="bilinear")
SPECS = [
    *(replace(SPEC, resize=232), replace(SPEC, crop=192), replace(SPEC, mean=(0.4, 0.5, 0.5))),
    *(replace(SPEC, std=(0.2, 0.2, 0.3)), replace(SPEC, interpolation="bicubic")),
    *(replace(SPEC, antialias=False), replace(SPEC, num_frames=16)),
]
LAYER = nn.Linear(2, 2)
OTHERS = {
    "preprocess": [
        *(
            torchvision_model.preprocess_facts(level, SPEC)
            for level in ("simple", "medium", "complex")
        ),
        *(torchvision_model.preprocess_facts("medium", spec) for spec in SPECS),
    ],
    "decode": [
        decode_facts(DecoderConfig(), on_error="raise"),
        decode_facts(DecoderConfig.on_gpu(0), on_error="raise"),
        decode_facts(DecoderConfig(device="auto"), on_error="raise"),
        decode_facts(DecoderConfig(), on_error="conceal"),
    ],
    "model": [
        torchvision_model.model_facts("a", LAYER, ["0"]),
        torchvision_model.model_facts("b", LAYER, ["0"]),
        torchvision_model.model_facts("a", nn.Linear(2, 2), ["0"]),
        torchvision_model.model_facts("a", LAYER, ["0", "1"]),
    ],
    "numerics": [
        numerics_facts(Compute()),
        numerics_facts(Compute(precision="bfloat16")),
        numerics_facts(Compute(compile=True)),
    ],
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_key_depends_on_all_inputs_of_a_result(name):
    assert len({key(**{name: facts}) for facts in OTHERS[name]}) == len(OTHERS[name])


def test_a_key_does_not_depend_on_the_index_of_the_gpu():
    assert torchvision_model.preprocess_facts("medium", SPEC) == OTHERS["preprocess"][1]
    assert decode_facts(DecoderConfig.on_gpu(1), on_error="raise") == OTHERS["decode"][1]


@needs_torchcodec
def test_keys_of_torchcodec_differ_and_have_its_version():
    facts = decode_facts(TORCHCODEC, on_error="raise")
    assert (facts["backend"], facts["version"]) == ("torchcodec", version("torchcodec"))
    assert key(decode=facts) != key(decode=OTHERS["decode"][0])


NUMBERS = st.sampled_from(
    ["bool", "f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">f4", ">i8"]
)
ANY_SHAPE = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
RESULT = st.dictionaries(
    st.text(max_size=8), hnp.arrays(NUMBERS, ANY_SHAPE), min_size=1, max_size=4
)
SAMPLE = encode(CacheEntry(key(), arrays()))


@given(RESULT)
def test_a_result_survives_encoding(result):
    entry = decode(encode(CacheEntry(key(), result)), key().digest)
    assert (entry.key, list(entry.arrays)) == (key(), list(result))
    for name, array in entry.arrays.items():
        assert array.dtype == result[name].dtype.newbyteorder("<")
        assert array.shape == result[name].shape
        np.testing.assert_array_equal(array, result[name])
        assert array.flags.writeable


def test_encoding_does_not_depend_on_the_memory_order():
    transposed = {name: np.asfortranarray(array) for name, array in arrays().items()}
    assert encode(CacheEntry(key(), transposed)) == SAMPLE


@given(st.integers(0, len(SAMPLE) - 1), st.integers(1, 255), st.binary(max_size=40))
def test_a_changed_truncated_or_longer_entry_is_an_error(offset, change, extra):
    changed = bytearray(SAMPLE)
    changed[offset] ^= change
    for content in (bytes(changed), SAMPLE[:offset], SAMPLE + b"\0" + extra, extra):
        with pytest.raises(CacheError):
            decode(content)


def forged(tables: object, payload: bytes = bytes(8), text: object = None, length=None) -> bytes:
    """Return an entry with a valid checksum and any header."""
    header = json.dumps({"key": text or key().text, "arrays": tables}).encode()
    body = b"HRC1" + struct.pack("<I", length or len(header)) + header + payload
    return body + hashlib.blake2b(body, digest_size=16).digest()


def table(shape=(2,), name="a", dtype="<f4") -> dict[str, object]:
    return {"name": name, "dtype": dtype, "shape": shape}


SHAPES = [*([2**62], [0, 2**62, 2**62], [2**200], [-1, -2], [2.0], [True], "8", [1], [1] * 70)]
INVALID_TABLES = [
    *([], {}, None, [None], [{"name": "a", "dtype": "<f4"}], [table((1,))] * 2),
    *([table(shape)] for shape in SHAPES),
    *([table((1,), dtype="|O")], [table(dtype=["<f4"])], [table(name=1)]),
]
TEXTS = ["x", 7, [1], key().text.replace('"format":1', '"format":9')]
FORGED = [
    *((forged(tables), None) for tables in INVALID_TABLES),
    *((forged([table()], text=text), None) for text in TEXTS),
    (forged([table()], length=2**32 - 1), "longer than the entry"),
]


@pytest.mark.parametrize(("content", "message"), FORGED)
def test_an_invalid_header_is_an_error_and_allocates_no_memory(content, message):
    decode(forged([table()]))
    with pytest.raises(CacheError, match=message):
        decode(content)


def test_the_entry_of_another_key_is_an_error():
    with pytest.raises(CacheError, match="another key"):
        decode(SAMPLE, key(1).digest)
