"""Groups of keys: what makes another result makes another key, and nothing else does."""

from dataclasses import replace
from importlib.metadata import version

import pytest
from torch import nn

from cache.made import key
from decode.backends import TORCHCODEC, needs_torchcodec
from headrace.cache.facts import decode_facts
from headrace.cache.model_facts import model_facts, numerics_facts, preprocess_facts
from headrace.decode.decoding import Decoding
from headrace.models.compute import Compute
from headrace.preprocess.spec import InputSpec

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
