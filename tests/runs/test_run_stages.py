"""The stages of a run, one batch at a time."""

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
from runs.kit import pictures
from runs.tiny import tiny_classifier


def test_each_stage_takes_what_the_one_before_it_gives(tmp_path, scanned):
    """Of a clip that starts at 5 seconds."""
    index = scanned(SynthClip(num_frames=6, timing=Timing(start_seconds=Fraction(5))))
    classifier = tiny_classifier()
    frames = np.zeros((2, 96, 128, 3), np.uint8)
    frames[1] = 255
    wanted = np.array([3, 5])
    known = {"pts": index.pts[wanted], "time_base": index.info.time_base, "decode_seconds": 0.25}
    batch = FrameBatch(frames=frames, video=0, index=wanted, **known)
    with closing(AnnotatedVideos(tmp_path, 1, indexes=[index])) as video:
        preprocess = build_preprocess("simple", classifier.input)
        stages = stages_of(preprocess, Transfers(), classifier, [video])
        assert [stage.name for stage in stages] == ["preprocess", "model", "sink"]
        prepared = stages[0].function(batch)
        assert prepared.tensor.shape == (2, 3, 8, 8)
        seen = stages[1].function(prepared)
        assert seen.output.names == (("dark",), ("light",))
        assert seen.batch is prepared.batch is batch
        fields = {"input": 0, "first_index": 3, "frames": 2, "work_ms": {"decode": 250.0}}
        assert stages[2].function(seen) == fields
    times = [frame.time for frame in pictures(tmp_path)]
    assert times == pytest.approx([3 / 30, 5 / 30], abs=1e-4), "counted from the first frame"


def model_on(**compute: object) -> Model[Labels]:
    return replace(tiny_classifier(), compute=Compute(**compute))


PLACES = [
    *({"device": device, "prep_on_gpu": on_gpu} for device in ("cpu", "cuda") for on_gpu in (0, 1)),
    *({"device": device, "prep_on_gpu": 1, "keeps_frames": True} for device in ("cpu", "cuda")),
    {"device": "cuda", "split_layer": "x", "prep_on_gpu": 1, "keeps_frames": True},
]


def test_there_is_a_transfer_where_something_changes_its_device(holds):
    """And none to where frames are kept; that inside of a split model is left out."""
    lines = []
    for place in PLACES:
        given = dict(place)
        where = {name: given.pop(name) for name in ("prep_on_gpu", "keeps_frames") if name in given}
        model = model_on(**given)
        made = Transfers.of(model, **where)
        assert (made.crossing is not None) == ("split_layer" in place)
        transfers = replace(made, crossing=None)
        stages = stages_of(build_preprocess("simple", model.input), transfers, model, [])
        lines.append(f"{place}: {', '.join(stage.name for stage in stages)}")
        assert all(STAGE_ROLES[stage.name] for stage in stages)
    holds("stages.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("prep_on_gpu", [False, True])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_split_model_begins_on_the_cpu_and_ends_on_the_device(prep_on_gpu, device):
    model = model_on(device=device, split_layer="inner")
    transfers = Transfers.of(model, prep_on_gpu=prep_on_gpu)
    assert (transfers.batches is not None) == prep_on_gpu
    assert transfers.crossing is not None


def copying() -> Transfer:
    """Return what plays a device: it copies, and counts."""
    return Transfer("cpu", lambda tensor, device: tensor.clone())


def moved_bytes(transfers: Transfers) -> dict[str, int]:
    return {name: transfer.moved_bytes for name, transfer in transfers.by_stage().items()}


FRAMES = np.arange(2 * 8 * 8 * 3, dtype=np.uint8).reshape(2, 8, 8, 3)


def carried(transfers: Transfers, frames: object = FRAMES):
    """Return what the model saw in two frames."""
    model = tiny_classifier()
    known = {"video": 0, "index": np.arange(2), "pts": np.arange(2), "time_base": Fraction(1, 30)}
    value = FrameBatch(frames=frames, **known)
    for stage in stages_of(build_preprocess("simple", model.input), transfers, model, [])[:-1]:
        value = stage.function(value)
    return value


def test_frames_that_are_carried_before_preprocessing_give_the_same_and_are_a_quarter_of_it():
    late, early = Transfers(batches=copying()), Transfers(frames=copying(), batches=copying())
    ways = (Transfers(), late, early)
    first, *others = (carried(way).output for way in ways)
    assert others == [first, first]
    assert [moved_bytes(way) for way in ways] == [
        {},
        {"transfer": FRAMES.size * 4},
        {"transfer": FRAMES.size, "transfer to the model": FRAMES.size * 4},
    ]


@pytest.mark.parametrize("is_shown", [True, False])
def test_kept_frames_are_let_go_when_they_are_preprocessed_or_come_down(is_shown):
    transfers = Transfers(to_sinks=copying()) if is_shown else Transfers()
    kept = carried(transfers, torch.from_numpy(FRAMES.copy()))
    assert kept.output == carried(Transfers()).output
    assert np.array_equal(kept.batch.frames, FRAMES) == is_shown
    assert moved_bytes(transfers) == ({"transfer to the sinks": FRAMES.size} if is_shown else {})
