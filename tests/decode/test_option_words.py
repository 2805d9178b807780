"""Errors of what decodes name the option that a command has."""

import pytest

from headrace.decode.option_words import in_option_words, saying_option
from headrace.errors import BackendError, ConfigError


def test_the_cure_is_the_option():
    said = "GPU 0 was asked for to decode a.mp4; leave gpu out, or encode the file anew"
    assert in_option_words(said) == said.replace("gpu out", "--decode out")
    assert in_option_words("install it, or leave backend out").endswith("leave --decode out")


def test_the_cause_stays_and_other_errors_are_left_alone():
    cause = MemoryError()
    with pytest.raises(BackendError, match="leave --decode out") as caught, saying_option():
        raise BackendError("none; leave gpu out") from cause
    assert caught.value.__cause__ is cause
    with pytest.raises(ConfigError, match="leave gpu out"), saying_option():
        raise ConfigError("leave gpu out")
