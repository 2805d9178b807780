"""Real faces on a real picture, by weights inside an installed package."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from headrace.decode.pictures import read_picture
from headrace.errors import ConfigError
from headrace.models.box_choice import BoxChoice
from headrace.models.faces import weight_files
from headrace.models.load import load_detector
from headrace.models.weights import with_weights
from headrace.preprocess.levels import build_preprocess
from weights import faces

FACES = [
    *((316, 234, 409, 361), (683, 286, 791, 419), (221, 65, 302, 174)),
    *((439, 213, 517, 308), (531, 299, 633, 438)),
]
"""As facenet-pytorch's own code finds them."""


@pytest.fixture(scope="module")
def mtcnn():
    return load_detector("mtcnn", choice=BoxChoice(threshold=0.9))


def test_the_five_faces_of_a_picture_are_found_where_they_are(mtcnn):
    picture = read_picture(faces())[None]
    found = mtcnn.run(build_preprocess("medium", mtcnn.input)(picture))
    assert found.labels == (("face",) * 5,)
    assert sorted(map(tuple, found.xyxy[0].tolist())) == [
        pytest.approx(face, abs=1) for face in sorted(FACES)
    ]


def test_pictures_of_a_batch_are_looked_at_each_for_itself(mtcnn):
    picture = read_picture(faces())[:320, :512]
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


def test_only_the_weights_in_the_package_are_taken_and_only_for_boxes(tmp_path):
    assert [path.name for path in weight_files()] == ["pnet.pt", "rnet.pt", "onet.pt"]
    with pytest.raises(ConfigError, match=r"mtcnn has the weights inside .*got 'none'; leave out"):
        load_detector("mtcnn", "none")
    with pytest.raises(ConfigError, match="mtcnn is not of torchvision: it gives boxes"):
        with_weights("mtcnn", "DEFAULT")


def test_the_package_is_not_imported_and_missed_by_name():
    code = """
import sys
from importlib import metadata
from headrace.errors import BackendError
from headrace.models.load import load_detector
load_detector("mtcnn")
assert "facenet_pytorch" not in sys.modules
sys.meta_path[:] = [each for each in sys.meta_path if not hasattr(each, "find_distributions")]
try:
    load_detector("mtcnn")
except BackendError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install --no-deps facenet-pytorch" in done.stdout
