"""Nothing that a library below raises leaves as it is."""

import pytest

from headrace.errors import ConfigError, DecodeError, MediaError, OpenError
from headrace.video.door import at_the_door


@pytest.mark.parametrize(
    "error", [ValueError("29 is not a valid Type"), IndexError(), MemoryError()]
)
def test_what_is_not_ours_becomes_a_media_error_with_its_cause(error):
    with pytest.raises(OpenError) as caught, at_the_door(OpenError, "a.mp4", "open"):
        raise error
    assert caught.value.__cause__ is error
    assert caught.value.source == "a.mp4"
    assert "cannot open a.mp4" in str(caught.value)
    assert type(error).__name__ in str(caught.value)


@pytest.mark.parametrize("error", [ConfigError("no"), DecodeError("no", source="b")])
def test_what_is_ours_goes_through(error):
    with pytest.raises(type(error)) as caught, at_the_door(OpenError, "a.mp4", "open"):
        raise error
    assert caught.value is error


def test_an_interrupt_goes_through():
    with pytest.raises(KeyboardInterrupt), at_the_door(MediaError, "a.mp4", "open"):
        raise KeyboardInterrupt
