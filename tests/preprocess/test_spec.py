"""What a model was trained to see."""

from dataclasses import replace

import pytest

from headrace.errors import ConfigError
from headrace.preprocess.spec import InputSpec

PICTURES = InputSpec(
    resize=256, crop=224, mean=(0.5,) * 3, std=(0.5,) * 3, interpolation="bilinear"
)


def test_the_shape_of_a_batch_follows_from_what_the_model_takes():
    clips = replace(PICTURES, num_frames=16)
    as_they_are = replace(PICTURES, resize=None, crop=None)
    assert (PICTURES.layout, PICTURES.shape(4, (480, 640))) == ("N C H W", (4, 3, 224, 224))
    assert (clips.layout, clips.shape(4, (480, 640))) == ("N C T H W", (4, 3, 16, 224, 224))
    assert as_they_are.shape(4, (480, 640)) == (4, 3, 480, 640)


@pytest.mark.parametrize("change", [{"resize": None}, {"crop": None}, {"num_frames": 0}])
def test_what_no_model_takes_is_refused(change):
    with pytest.raises(
        ConfigError, match=r"resize is .* give both|num_frames must be an integer >= 1, got 0"
    ):
        replace(PICTURES, **change)
