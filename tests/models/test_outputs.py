"""From what a module returns to labels, boxes and features."""

import numpy as np
import pytest
import torch

from headrace.errors import ConfigError
from headrace.models.box_choice import BoxChoice
from headrace.models.class_names import ClassNames
from headrace.models.outputs import ToBoxes, ToLabels, to_features
from models.tiny import Mean, tiny

ABC = ClassNames(names=("a", "b", "c"))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(("a", "b", "c"), (("b",), ("c",))), (None, (("class 1",), ("class 2",)))],
)
def test_the_first_choice_is_the_class_with_the_highest_score(labels, expected):
    batch = torch.zeros(2, 3, 4, 4)
    batch[0, 1], batch[1, 2] = 1.0, 20.0
    found = tiny(Mean(), labels).run(batch)
    assert found.names == expected
    e = torch.e
    assert [row[0] for row in found.confidence] == pytest.approx([e / (e + 2), 1.0])


def test_as_many_labels_come_as_were_asked_for_the_likeliest_first():
    scores = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
    found = ToLabels(class_names=ABC, top_k=2)(scores)
    assert found.names == (("b", "c"), ("a", "b")), "of equal ones the lower number is first"
    assert found.confidence[0] == pytest.approx(scores[0].softmax(0)[[1, 2]].tolist())
    assert ToLabels(class_names=ABC, top_k=9)(scores).names[0] == ("b", "c", "a")


def test_scores_in_few_bits_become_confidence_in_full_precision():
    scores = torch.tensor([[0.0, 2.0, 1.0]])
    whole, half = (ToLabels(class_names=ABC)(s) for s in (scores, scores.bfloat16()))
    assert whole == half


def test_boxes_below_the_threshold_are_left_out_of_each_picture():
    found = [
        {
            "boxes": torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 9.0, 9.0]]),
            "labels": torch.tensor([2, 1]),
            "scores": torch.tensor([0.75, 0.25]),
        },
        {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0).long(), "scores": torch.zeros(0)},
    ]
    boxes = ToBoxes(class_names=ABC, choice=BoxChoice(threshold=0.5))(found)
    assert boxes.labels == (("c",), ())
    assert np.array_equal(boxes.xyxy[0], [[1, 2, 3, 4]])
    assert np.array_equal(boxes.scores[0], [0.75])
    assert (boxes.xyxy[1].shape, boxes.xyxy[1].dtype) == ((0, 4), np.float32)
    assert ToBoxes(class_names=ABC, choice=BoxChoice(threshold=0.25))(found).labels[0] == ("c", "b")


def test_features_in_few_bits_become_float32():
    value = torch.tensor([[1.5, -2.0]])
    found = to_features({"whole": value, "half": value.bfloat16()})
    for layer in ("whole", "half"):
        assert found.layers[layer].dtype == np.float32
        assert np.array_equal(found.layers[layer], [[1.5, -2.0]])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ToLabels(class_names=ABC, top_k=0), "top_k must be an integer >= 1, got 0"),
        (lambda: BoxChoice(threshold=70), "threshold must lie in 0 to 1, got 70"),
    ],
)
def test_what_no_result_can_be_is_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
