"""Which boxes are kept, and what classes are called."""

import numpy as np
import pytest
import torch

from headrace.errors import ConfigError
from headrace.models.box_choice import BoxChoice
from headrace.models.class_names import ClassNames
from headrace.models.outputs import ToBoxes

COCO = ClassNames(names=("__background__", "person", "traffic light", "N/A", "dog"))
UNNAMED = ClassNames(names=None)
FOUND = [
    {
        "boxes": torch.arange(16.0).reshape(4, 4),
        "labels": torch.tensor([1, 4, 1, 2]),
        "scores": torch.tensor([0.5, 0.9, 0.9, 0.7]),
    }
]


def test_the_surest_come_first_and_as_many_as_were_asked_for():
    boxes = ToBoxes(class_names=COCO, choice=BoxChoice(threshold=0.6))(FOUND)
    assert boxes.labels == (("dog", "person", "traffic light"),), "equal ones stay in order"
    assert boxes.classes[0].tolist() == [4, 1, 2]
    assert boxes.xyxy[0][0].tolist() == [4, 5, 6, 7]
    two = ToBoxes(class_names=COCO, choice=BoxChoice(threshold=0, max_boxes=2))(FOUND)
    assert two.scores[0] == pytest.approx(np.float32([0.9, 0.9]))


def test_only_the_classes_that_were_chosen_are_kept():
    choice = BoxChoice(threshold=0, classes=("Traffic Light", "person"))
    found = ToBoxes(class_names=COCO, choice=choice)(FOUND)
    assert found.labels == (("person", "traffic light", "person"),)
    numbers = BoxChoice(threshold=0, classes=("4", "class 2"))
    assert ToBoxes(class_names=UNNAMED, choice=numbers)(FOUND).labels == (("class 4", "class 2"),)


def test_numbers_that_stand_for_nothing_are_no_classes():
    assert dict(COCO.items()) == {1: "person", 2: "traffic light", 4: "dog"}
    assert dict(UNNAMED.items()) == {}


@pytest.mark.parametrize(
    ("choose", "words"),
    [
        (lambda: COCO.number("dgo"), r"knows no class 'dgo'; did you mean dog\? \(3 classes\)"),
        (lambda: COCO.number("n/a"), "knows no class 'n/a'; did you mean person"),
        (lambda: UNNAMED.number("dog"), "have no names of classes, got 'dog'; give their numbers"),
        (lambda: BoxChoice(max_boxes=0), "max_boxes must be an integer >= 1, got 0"),
        (lambda: BoxChoice(threshold=float("nan")), "threshold must lie in 0 to 1, got nan"),
        (
            lambda: ToBoxes(class_names=COCO, choice=BoxChoice(classes=("cat",))),
            "knows no class 'cat'",
        ),
    ],
)
def test_a_class_that_is_none_is_refused_with_those_that_are_close(choose, words):
    with pytest.raises(ConfigError, match=words):
        choose()
