"""Labels and boxes from module outputs, descriptions of outputs, and the face detector."""

import sys

import numpy as np
import pytest
import torch

from headrace.decode.image_files import read_image
from headrace.errors import BackendError
from headrace.models.load import load_detector
from headrace.models.mtcnn import face_weights
from headrace.models.outputs import BoxDecoder, ToLabels, describe_value
from headrace.models.results import BoxChoice, ClassNames
from headrace.preprocess.levels import build_preprocess
from models.tiny import COCO, UNNAMED, Mean, tiny
from weights import faces

ABC = ClassNames(names=("a", "b", "c"))


@pytest.mark.parametrize("labels", [("a", "b", "c"), None])
def test_the_first_label_is_the_class_with_the_highest_score(labels):
    batch = torch.zeros(2, 3, 4, 4)
    batch[0, 1], batch[1, 2] = 1.0, 20.0
    result = tiny(Mean(), labels).run(batch)
    assert result.names == ((("b",), ("c",)) if labels else (("class 1",), ("class 2",)))
    e = torch.e
    assert [row[0] for row in result.confidence] == pytest.approx([e / (e + 2), 1.0])


def test_top_k_labels_are_sorted_by_score():
    scores = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]])
    labels = ToLabels(class_names=ABC, top_k=2)(scores)
    assert labels.names == (("b", "c"), ("a", "b")), "equal scores are sorted by number"
    assert labels.confidence[0] == pytest.approx(scores[0].softmax(0)[[1, 2]].tolist())
    assert ToLabels(class_names=ABC, top_k=9)(scores).names[0] == ("b", "c", "a")


def test_confidence_of_16_bit_scores_is_computed_in_float32():
    scores = torch.tensor([[0.0, 2.0, 1.0]])
    full, half = (ToLabels(class_names=ABC)(s) for s in (scores, scores.bfloat16()))
    assert full == half


def detection(boxes, labels, scores):
    """Return the output of a torchvision detector for one image."""
    return {
        "boxes": torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
        "labels": torch.tensor(labels, dtype=torch.int64),
        "scores": torch.tensor(scores),
    }


def test_boxes_below_the_threshold_are_dropped_in_each_image():
    detections = [detection([1, 2, 3, 4, 0, 0, 9, 9], [2, 1], [0.75, 0.25]), detection([], [], [])]
    boxes = BoxDecoder(class_names=ABC, choice=BoxChoice(threshold=0.5))(detections)
    assert boxes.labels == (("c",), ())
    assert np.array_equal(boxes.xyxy[0], [[1, 2, 3, 4]])
    assert np.array_equal(boxes.scores[0], [0.75])
    assert (boxes.xyxy[1].shape, boxes.xyxy[1].dtype) == ((0, 4), np.float32)
    lower = BoxDecoder(class_names=ABC, choice=BoxChoice(threshold=0.25))
    assert lower(detections).labels[0] == ("c", "b")


DETECTIONS = [detection([*range(16)], [1, 4, 1, 2], [0.5, 0.9, 0.9, 0.7])]


def test_boxes_are_sorted_by_score_and_limited_in_number():
    boxes = BoxDecoder(class_names=COCO, choice=BoxChoice(threshold=0.6))(DETECTIONS)
    assert boxes.labels == (("dog", "person", "traffic light"),), "equal scores keep their order"
    assert boxes.classes[0].tolist() == [4, 1, 2]
    assert boxes.xyxy[0][0].tolist() == [4, 5, 6, 7]
    two = BoxDecoder(class_names=COCO, choice=BoxChoice(threshold=0, max_boxes=2))(DETECTIONS)
    assert two.scores[0] == pytest.approx(np.float32([0.9, 0.9]))


def test_only_boxes_of_the_given_classes_are_kept():
    choice = BoxChoice(threshold=0, classes=("Traffic Light", "person"))
    boxes = BoxDecoder(class_names=COCO, choice=choice)(DETECTIONS)
    assert boxes.labels == (("person", "traffic light", "person"),)
    numbers = BoxChoice(threshold=0, classes=("4", "class 2"))
    boxes = BoxDecoder(class_names=UNNAMED, choice=numbers)(DETECTIONS)
    assert boxes.labels == (("class 4", "class 2"),)


def test_placeholders_are_not_classes():
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
def test_a_value_is_described_by_type_dtype_and_shape(value, words):
    assert describe_value(value) == words


FACES = [
    *((221, 65, 302, 174), (316, 234, 409, 361), (439, 213, 517, 308)),
    *((531, 299, 633, 438), (683, 286, 791, 419)),
]
"""Boxes that facenet-pytorch's own code returns."""


@pytest.fixture(scope="module")
def mtcnn():
    return load_detector("mtcnn", choice=BoxChoice(threshold=0.9))


def test_the_five_faces_of_an_image_are_located(mtcnn):
    image = read_image(faces())[None]
    boxes = mtcnn.run(build_preprocess("medium", mtcnn.input)(image))
    assert boxes.labels == (("face",) * 5,)
    assert np.allclose(sorted(boxes.xyxy[0].tolist()), FACES, rtol=0, atol=1)


def test_images_of_a_batch_are_independent(mtcnn):
    image = read_image(faces())[:320, :512]
    batch = np.stack([image, image[:, ::-1], np.zeros_like(image)])
    prepare = build_preprocess("medium", mtcnn.input)
    together, alone = mtcnn.run(prepare(batch)), mtcnn.run(prepare(batch[:1]))
    assert [len(boxes) for boxes in together.xyxy] == [3, 3, 0]
    assert np.allclose(together.xyxy[0], alone.xyxy[0], atol=1e-3)
    mirrored = 512 - together.xyxy[1][:, [2, 0]]  # the network is not symmetric
    assert np.allclose(
        np.sort(mirrored, axis=0), np.sort(alone.xyxy[0][:, [0, 2]], axis=0), atol=20
    )


@pytest.mark.parametrize("size", [(1, 1), (11, 300), (20, 20)])
def test_images_smaller_than_the_smallest_face_have_no_boxes(mtcnn, size):
    assert mtcnn.run(torch.zeros(1, 3, *size)).labels == ((),)


def test_the_weight_files_of_the_package_are_found():
    assert [path.name for path in face_weights()] == ["pnet.pt", "rnet.pt", "onet.pt"]


def test_the_package_is_not_imported_and_a_missing_one_is_named(monkeypatch):
    load_detector("mtcnn")
    assert "facenet_pytorch" not in sys.modules
    finders = [finder for finder in sys.meta_path if not hasattr(finder, "find_distributions")]
    monkeypatch.setattr(sys, "meta_path", finders)
    with pytest.raises(BackendError, match="pip install --no-deps facenet-pytorch"):
        load_detector("mtcnn")
