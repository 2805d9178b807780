"""Keys: equal when all that a result was made of is, and able to say what differs."""

import copy
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.made import GROUPS, key
from headrace.cache.key import ChunkKey, Difference, differences
from headrace.errors import ConfigError

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
