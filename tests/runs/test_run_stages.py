"""Stages of a run: their order, results, and transfers between devices."""

from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

from headrace.models.compute import Compute
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.preprocess.levels import build_preprocess
from headrace.runs.run_stages import STAGE_ROLES, Transfer, Transfers, stages_of
from headrace.sinks.annotated import AnnotatedVideos
from headrace.testing.synth import SynthClip, Timing
from headrace.video.frames import FrameBatch
from runs.kit import annotated_frames
from runs.tiny import tiny_classifier


def test_each_stage_processes_the_result_of_the_one_before(tmp_path, scanned):
    """With a clip that starts at 5 seconds."""
    index = scanned(SynthClip(num_frames=6, timing=Timing(start_seconds=Fraction(5))))
    classifier = tiny_classifier()
    frames = np.zeros((2, 96, 128, 3), np.uint8)
    frames[1] = 255
    frame_indices = np.array([3, 5])
    times = {"pts": index.pts[frame_indices], "time_base": index.info.time_base}
    batch = FrameBatch(frames=frames, video=0, index=frame_indices, decode_seconds=0.25, **times)
    with closing(AnnotatedVideos(tmp_path, 1, indexes=[index])) as video:
        preprocess = build_preprocess("simple", classifier.input)
        stages = stages_of(preprocess, Transfers(), classifier, [video])
        assert [stage.name for stage in stages] == ["preprocess", "model", "sink"]
        prepared = stages[0].function(batch)
        assert prepared.tensor.shape == (2, 3, 8, 8)
        results = stages[1].function(prepared)
        assert results.output.names == (("dark",), ("light",))
        assert results.batch is prepared.batch is batch
        fields = {"input": 0, "first_index": 3, "frames": 2, "work_ms": {"decode": 250.0}}
        assert stages[2].function(results) == fields
    seconds = [frame.time for frame in annotated_frames(tmp_path)]
    assert seconds == pytest.approx([3 / 30, 5 / 30], abs=1e-4), "relative to the first frame"


def model_on(**compute: object) -> Model[Labels]:
    return replace(tiny_classifier(), compute=Compute(**compute))


DEVICES = [
    *({"device": device, "prep_on_gpu": on_gpu} for device in ("cpu", "cuda") for on_gpu in (0, 1)),
    *({"device": device, "prep_on_gpu": 1, "keeps_frames": True} for device in ("cpu", "cuda")),
    {"device": "cuda", "split_layer": "x", "prep_on_gpu": 1, "keeps_frames": True},
]


def test_data_that_changes_its_device_has_a_transfer(holds):
    """Without the transfer inside a split model."""
    lines = []
    for case in DEVICES:
        compute = dict(case)
        names = [name for name in ("prep_on_gpu", "keeps_frames") if name in case]
        preparation = {name: compute.pop(name) for name in names}
        model = model_on(**compute)
        transfers = Transfers.of(model, **preparation)
        assert (transfers.crossing is not None) == ("split_layer" in case)
        transfers = replace(transfers, crossing=None)
        stages = stages_of(build_preprocess("simple", model.input), transfers, model, [])
        lines.append(f"{case}: {', '.join(stage.name for stage in stages)}")
        assert all(STAGE_ROLES[stage.name] for stage in stages)
    holds("stages.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("prep_on_gpu", [False, True])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_split_model_starts_on_the_cpu_and_ends_on_the_device(prep_on_gpu, device):
    model = model_on(device=device, split_layer="inner")
    transfers = Transfers.of(model, prep_on_gpu=prep_on_gpu)
    assert (transfers.batches is not None) == prep_on_gpu
    assert transfers.crossing is not None


def copying_transfer() -> Transfer:
    """Return a transfer to a fake device: it copies on the CPU."""
    return Transfer("cpu", lambda tensor, device: tensor.clone())


def moved_bytes(transfers: Transfers) -> dict[str, int]:
    return {name: transfer.moved_bytes for name, transfer in transfers.by_stage().items()}


FRAMES = np.arange(2 * 8 * 8 * 3, dtype=np.uint8).reshape(2, 8, 8, 3)


def run_model(transfers: Transfers, frames: object = FRAMES):
    """Return the results of the model for two frames."""
    model = tiny_classifier()
    metadata = {
        "video": 0,
        "index": np.arange(2),
        "pts": np.arange(2),
        "time_base": Fraction(1, 30),
    }
    value = FrameBatch(frames=frames, **metadata)
    for stage in stages_of(build_preprocess("simple", model.input), transfers, model, [])[:-1]:
        value = stage.function(value)
    return value


def test_frames_have_a_quarter_of_the_bytes_of_preprocessed_batches():
    late = Transfers(batches=copying_transfer())
    early = Transfers(frames=copying_transfer(), batches=copying_transfer())
    variants = (Transfers(), late, early)
    first, *others = (run_model(transfers).output for transfers in variants)
    assert others == [first, first]
    assert [moved_bytes(transfers) for transfers in variants] == [
        {},
        {"transfer": FRAMES.size * 4},
        {"transfer": FRAMES.size, "transfer to the model": FRAMES.size * 4},
    ]


@pytest.mark.parametrize("has_sinks", [True, False])
def test_frames_on_the_device_are_copied_for_sinks_or_released(has_sinks):
    transfers = Transfers(to_sinks=copying_transfer()) if has_sinks else Transfers()
    results = run_model(transfers, torch.from_numpy(FRAMES.copy()))
    assert results.output == run_model(Transfers()).output
    assert np.array_equal(results.batch.frames, FRAMES) == has_sinks
    assert moved_bytes(transfers) == ({"transfer to the sinks": FRAMES.size} if has_sinks else {})
