"""What the classifiers of torchvision are given: one rule for all of them."""

import pytest
import torch
from torch import nn

from headrace.errors import ConfigError
from headrace.models.pooled import HeadTap
from headrace.models.weights import with_weights


@pytest.mark.parametrize(
    ("name", "head", "features"),
    [
        ("resnet18", "fc", 512),
        ("vgg11", "classifier.6", 4096),
        ("efficientnet_b0", "classifier.1", 1280),
        ("mobilenet_v3_small", "classifier.3", 1024),
        ("vit_b_32", "heads.head", 768),
        ("swin_t", "head", 768),
        ("convnext_tiny", "classifier.2", 768),
        ("squeezenet1_1", "classifier.1", 512),
        ("r3d_18", "fc", 512),
        ("s3d", "classifier.1", 1024),
    ],
)
def test_pooled_features_are_what_the_classifier_is_given(name, head, features):
    built = with_weights(name, "none")
    tap = HeadTap(built.module).eval()
    # s3d halves the time until nothing is left of shorter clips.
    time = () if built.input.num_frames is None else (13 if name == "s3d" else 2,)
    side = built.input.crop if name in ("vit_b_32", "s3d") else 64
    with torch.inference_mode():
        found = tap(torch.zeros(1, 3, *time, side, side))
    assert tap.head == head
    assert found.shape == (1, features)


class Small(nn.Module):
    """Two layers, of which the second need not be run."""

    def __init__(self, runs_head=True):
        super().__init__()
        self.runs_head = runs_head
        self.features, self.fc = nn.Linear(3, 4), nn.Linear(4, 5)

    def forward(self, batch):
        batch = self.features(batch)
        return self.fc(batch) if self.runs_head else batch


def test_features_are_the_input_of_the_last_layer_bit_for_bit():
    model = Small()
    batch = torch.ones(2, 3)
    features = model.features(batch)
    assert torch.equal(HeadTap(model)(batch), features)


def test_a_model_without_a_classifier_or_that_does_not_come_to_it_is_refused():
    with pytest.raises(ConfigError, match="no linear or convolutional layer"):
        HeadTap(nn.ReLU())
    with pytest.raises(ConfigError, match="did not run its layer fc"):
        HeadTap(Small(runs_head=False))(torch.ones(2, 3))
