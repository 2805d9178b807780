"""From what a module returns to labels, boxes and features, and the words for it."""

import sys

import numpy as np
import pytest
import torch

from headrace.decode.image_files import read_image
from headrace.errors import BackendError
from headrace.models.faces import weight_files
from headrace.models.load import load_detector
from headrace.models.outputs import BoxDecoder, ToLabels, value_words
from headrace.models.results import BoxChoice, ClassNames
from headrace.preprocess.levels import build_preprocess
from models.tiny import COCO, UNNAMED, Mean, tiny
from weights import faces

ABC = ClassNames(names=("a", "b", "c"))


@pytest.mark.parametrize("labels", [("a", "b", "c"), None])
def test_the_first_choice_is_the_class_with_the_highest_score(labels):
    batch = torch.zeros(2, 3, 4, 4)
    batch[0, 1], batch[1, 2] = 1.0, 20.0
    found = tiny(Mean(), labels).run(batch)
    assert found.names == ((("b",), ("c",)) if labels else (("class 1",), ("class 2",)))
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


def found_in(boxes, labels, scores):
    """What a detector of torchvision finds in a picture."""
    return {
        "boxes": torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
        "labels": torch.tensor(labels, dtype=torch.int64),
        "scores": torch.tensor(scores),
    }


def test_boxes_below_the_threshold_are_left_out_of_each_picture():
    found = [found_in([1, 2, 3, 4, 0, 0, 9, 9], [2, 1], [0.75, 0.25]), found_in([], [], [])]
    boxes = BoxDecoder(class_names=ABC, choice=BoxChoice(threshold=0.5))(found)
    assert boxes.labels == (("c",), ())
    assert np.array_equal(boxes.xyxy[0], [[1, 2, 3, 4]])
    assert np.array_equal(boxes.scores[0], [0.75])
    assert (boxes.xyxy[1].shape, boxes.xyxy[1].dtype) == ((0, 4), np.float32)
    lower = BoxDecoder(class_names=ABC, choice=BoxChoice(threshold=0.25))
    assert lower(found).labels[0] == ("c", "b")


FOUND = [found_in([*range(16)], [1, 4, 1, 2], [0.5, 0.9, 0.9, 0.7])]


def test_the_surest_come_first_and_as_many_as_were_asked_for():
    boxes = BoxDecoder(class_names=COCO, choice=BoxChoice(threshold=0.6))(FOUND)
    assert boxes.labels == (("dog", "person", "traffic light"),), "equal ones stay in order"
    assert boxes.classes[0].tolist() == [4, 1, 2]
    assert boxes.xyxy[0][0].tolist() == [4, 5, 6, 7]
    two = BoxDecoder(class_names=COCO, choice=BoxChoice(threshold=0, max_boxes=2))(FOUND)
    assert two.scores[0] == pytest.approx(np.float32([0.9, 0.9]))


def test_only_the_classes_that_were_chosen_are_kept():
    choice = BoxChoice(threshold=0, classes=("Traffic Light", "person"))
    found = BoxDecoder(class_names=COCO, choice=choice)(FOUND)
    assert found.labels == (("person", "traffic light", "person"),)
    numbers = BoxChoice(threshold=0, classes=("4", "class 2"))
    found = BoxDecoder(class_names=UNNAMED, choice=numbers)(FOUND)
    assert found.labels == (("class 4", "class 2"),)


def test_numbers_that_stand_for_nothing_are_no_classes():
    assert dict(COCO.items()) == {1: "person", 2: "traffic light", 4: "dog"}
    assert dict(UNNAMED.items()) == {}


VALUES = [
    (torch.zeros(2, 3), "tensor float32 [2, 3]"),
    (torch.tensor(1), "tensor int64 []"),
    (torch.zeros(2, device="meta"), "tensor float32 [2] on meta"),
    (np.zeros((4, 5)), "numpy array float64 [4, 5]"),
    ([torch.zeros(2)] * 3, "list of 3 x tensor float32 [2]"),
    ((), "empty tuple"),
    ({"out": torch.zeros(1)}, "dict of 'out': tensor float32 [1]"),
    ({}, "empty dict"),
    (None, "NoneType"),
    ("secret words", "str"),
]


@pytest.mark.parametrize(("value", "words"), VALUES)
def test_a_value_is_named_by_its_type_dtype_and_shape(value, words):
    assert value_words(value) == words


FACES = [
    *((221, 65, 302, 174), (316, 234, 409, 361), (439, 213, 517, 308)),
    *((531, 299, 633, 438), (683, 286, 791, 419)),
]
"""As facenet-pytorch's own code finds them."""


@pytest.fixture(scope="module")
def mtcnn():
    return load_detector("mtcnn", choice=BoxChoice(threshold=0.9))


def test_the_five_faces_of_a_picture_are_found_where_they_are(mtcnn):
    picture = read_image(faces())[None]
    found = mtcnn.run(build_preprocess("medium", mtcnn.input)(picture))
    assert found.labels == (("face",) * 5,)
    assert np.allclose(sorted(found.xyxy[0].tolist()), FACES, rtol=0, atol=1)


def test_pictures_of_a_batch_are_looked_at_each_for_itself(mtcnn):
    picture = read_image(faces())[:320, :512]
    batch = np.stack([picture, picture[:, ::-1], np.zeros_like(picture)])
    prepare = build_preprocess("medium", mtcnn.input)
    together, alone = mtcnn.run(prepare(batch)), mtcnn.run(prepare(batch[:1]))
    assert [len(boxes) for boxes in together.xyxy] == [3, 3, 0]
    assert np.allclose(together.xyxy[0], alone.xyxy[0], atol=1e-3)
    turned = 512 - together.xyxy[1][:, [2, 0]]  # a mirrored face is not quite the same
    assert np.allclose(np.sort(turned, axis=0), np.sort(alone.xyxy[0][:, [0, 2]], axis=0), atol=20)


@pytest.mark.parametrize("size", [(1, 1), (11, 300), (20, 20)])
def test_pictures_too_small_for_a_face_hold_none(mtcnn, size):
    assert mtcnn.run(torch.zeros(1, 3, *size)).labels == ((),)


def test_the_weights_in_the_package_are_taken():
    assert [path.name for path in weight_files()] == ["pnet.pt", "rnet.pt", "onet.pt"]


def test_the_package_is_not_imported_and_missed_by_name(monkeypatch):
    load_detector("mtcnn")
    assert "facenet_pytorch" not in sys.modules
    finders = [each for each in sys.meta_path if not hasattr(each, "find_distributions")]
    monkeypatch.setattr(sys, "meta_path", finders)
    with pytest.raises(BackendError, match="pip install --no-deps facenet-pytorch"):
        load_detector("mtcnn")
