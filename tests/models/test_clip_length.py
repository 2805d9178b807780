"""A video model says which lengths of clips it takes before one is made."""

import pytest
import torch

from headrace.errors import ConfigError
from headrace.models.clip_length import with_clip_length
from headrace.models.load import load_classifier, load_clip_classifier


def test_another_length_than_the_model_was_made_for():
    model = with_clip_length(load_clip_classifier("r3d_18", "none"), 3)
    assert model.input.shape(1, (4, 4)) == (1, 3, 3, 112, 112)
    assert len(model.run(torch.zeros(1, 3, 3, 32, 32)).names) == 1
    assert with_clip_length(model, None) is model


@pytest.mark.parametrize(
    ("name", "num_frames", "message"),
    [
        ("mvit_v1_b", 8, "mvit_v1_b takes clips of 16 frames, no others; got 8"),
        ("s3d", 12, "s3d takes clips of 13 frames or more, got 12"),
    ],
)
def test_a_length_that_is_not_possible_is_refused_with_what_is(name, num_frames, message):
    with pytest.raises(ConfigError, match=message):
        with_clip_length(load_clip_classifier(name, "none"), num_frames)


def test_a_model_of_pictures_takes_no_clips():
    with pytest.raises(ConfigError, match="mobilenet_v2 takes single frames; leave out --clip-len"):
        with_clip_length(load_classifier("mobilenet_v2", "none"), 8)


def test_the_least_length_of_s3d_runs_and_a_shorter_one_does_not():
    model = load_clip_classifier("s3d", "none")
    model.run(torch.zeros(1, 3, 13, 224, 224))
    with pytest.raises(RuntimeError):
        model.run(torch.zeros(1, 3, 12, 224, 224))
