"""The drawn videos of the demo, and the classifier of them."""

import pytest
import torch

from headrace import ConfigError, load_clip
from headrace.models.load import load_classifier
from headrace.preprocess.levels import build_preprocess
from headrace.testing.demo import CLASSES, draw_demo


def test_the_classifier_is_right_on_every_frame(tmp_path):
    drawn = draw_demo(tmp_path, num_frames=27)
    model = load_classifier(drawn.model_name, str(drawn.head))
    preprocess = build_preprocess("medium", model.input)
    for video in drawn.videos:
        with torch.inference_mode():
            labels = model.run(preprocess(load_clip(video, 0, 27, 1).frames))
        assert {names[0] for names in labels.names} == {video.stem}
        assert min(confidence[0] for confidence in labels.confidence) > 0.9
    assert tuple(video.stem for video in drawn.videos) == CLASSES


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"cannot write to the folder .*taken"):
        draw_demo(tmp_path / "taken")
