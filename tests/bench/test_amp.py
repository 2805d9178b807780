"""Precisions of one model: what they change in its results, and which is the fastest."""

import pytest
import torch

from bench.contests import FAST, recorded
from decode.gpus import needs_gpu
from headrace.bench.amp import AmpConfig, AmpRecord, Precise, measure_amp
from headrace.bench.amp_report import AMP
from headrace.bench.benchmark import Context
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.models.native import is_native
from headrace.testing.synth import SynthClip, write_clip


def record(bfloat16, *, is_native=True, is_random=False, device="cpu"):
    precisions = [
        Precise(way="float32", same_class=1, most_changed=0, is_native=True),
        Precise(way="bfloat16", same_class=0.75, most_changed=0.125, is_native=is_native),
    ]
    return recorded(
        {"float32": [1.0, 1.0], "bfloat16": bfloat16},
        AmpRecord,
        model="tiny",
        device=device,
        is_random=is_random,
        frames=8,
        precisions=tuple(precisions),
    )


def test_both_precisions_of_a_processor_are_timed_and_compared(tmp_path):
    video = write_clip(tmp_path / "a", SynthClip(num_frames=6))
    config = AmpConfig(videos=(str(video),), threads=1, **FAST)
    found = measure_amp(config, Context(store=IndexStore(tmp_path / "index")))
    assert [turn.way for turn in found.turns] == ["float32", "bfloat16"]
    assert all(turn.amount >= 2 for turn in found.turns)
    full, half = found.precisions
    assert (full.same_class, full.most_changed) == (1, 0)
    assert 0 <= half.same_class <= 1
    assert 0 < half.most_changed < 0.1
    assert half.is_native is is_native("bfloat16")
    assert (found.frames, found.model, found.is_random) == (6, "squeezenet1_1", True)
    assert AmpRecord.model_validate_json(found.model_dump_json()) == found
    assert not torch.is_autocast_enabled("cpu")


def test_the_faster_precision_is_advised_with_the_option_of_a_run():
    [finding] = AMP.page(record([0.5, 0.5])).findings
    assert finding.headline == "Fastest is bfloat16: 200 frames/s"
    assert finding.change == "bfloat16: 2.00 times the 100 frames/s of float32."
    assert finding.advice.options == {"amp": True}
    assert finding.advice.gain == 2
    assert finding.evidence[0] == (
        "In bfloat16 75 % of 8 frames have the same likeliest class as in float32; confidence in "
        "it changes by up to 0.1."
    )


def test_a_processor_that_emulates_it_is_said():
    [finding] = AMP.page(record([2, 2], is_native=False)).findings
    assert finding.headline == "Fastest is float32: 100 frames/s"
    assert finding.advice.gain == 1
    assert any("PyTorch emulates it" in line for line in finding.evidence)
    assert AMP.page(record([2, 2], is_native=False)).table.rows[1][-1] == "emulated"


def test_random_weights_are_said_to_tell_little_of_results():
    [finding] = AMP.page(record([1, 1], is_random=True)).findings
    assert "With random weights" in finding.evidence[0]


def test_on_a_gpu_a_run_takes_float16_only():
    [finding] = AMP.page(record([0.5, 0.5], device="cuda")).findings
    assert finding.advice.options == {}
    assert "headrace run takes float16 with --use-amp" in finding.advice.words


def test_several_videos_are_refused():
    with pytest.raises(ConfigError, match="bench amp takes one video, got 2"):
        AmpConfig(videos=("a.mp4", "b.mp4"))


@needs_gpu
def test_a_gpu_is_asked_for_both_of_its_short_precisions(tmp_path):
    video = write_clip(tmp_path / "a", SynthClip(num_frames=6))
    config = AmpConfig(videos=(str(video),), device="cuda", **FAST)
    found = measure_amp(config, Context(store=IndexStore(tmp_path / "index")))
    assert [each.way for each in found.precisions][:2] == ["float32", "float16"]
    assert {each.is_native for each in found.precisions} == {None}
