"""`for result in headrace.live(source, model)`: results, models and sources of the loop."""

import re
import threading
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from torch import nn

import headrace
from decode.gpus import needs_no_gpu
from headrace.errors import BackendError, OpenError, StageError
from headrace.live.drop_policy import STALE
from headrace.live.live_edge import BACKLOG
from headrace.live.stream_reader import DAMAGED, LATE, NO_KEYFRAME
from headrace.runs.live.live_loop import LiveResult
from headrace.runs.live.live_pipeline import STRIDE
from headrace.runtime.clock import iso_text
from headrace.runtime.fan_out import SINK_FAILED, UNFINISHED
from headrace.runtime.stage import INCOMPLETE
from headrace.runtime.stage_executor import OVERFLOW, SOURCE_FAILED
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, read_number, write_clip
from runs.live.fake_sources import Endless, FakeSource
from runs.live.test_live_pipeline import means
from runs.tiny import tiny_classifier
from runtime.in_time import in_time

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "live.md"


def run_loop(source, model, **options):
    options = {"overload": "keep-all", "clock": FakeClock(), **options}
    return in_time(lambda: list(headrace.live(source, model, **options)))


def test_a_file_gives_one_result_per_frame(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=12))
    results = run_loop(str(clip), means)
    assert (
        [read_number(r.frames) for r in results] == list(range(12)) == [r.number for r in results]
    )
    assert [r.pts_seconds for r in results] == pytest.approx([k / 30 for k in range(12)])
    assert {(r.source, r.source_name) for r in results} == {(0, str(clip))}
    for r in results:
        assert float(r.output) == pytest.approx(r.frames.mean(), rel=1e-4)
        assert r.latency_ms >= 0
        assert r.captured_seconds is None is r.capture_time


def test_a_result_has_the_arrival_time_and_segment_of_its_frame():
    """The fake clock starts at 2023-11-14T22:13:20Z."""
    results = run_loop(FakeSource(count=3, interval_ms=250, captured=True, reconnects=(2,)), means)
    assert [(r.segment, iso_text(r.arrival_time)[17:26]) for r in results] == [
        *((0, "20.000000"), (0, "20.250000"), (1, "20.500000")),
    ]
    assert [r.capture_time for r in results] == [r.arrival_time for r in results]


def test_a_result_has_the_number_of_dropped_frames():
    results = run_loop(FakeSource(count=6, dropped=(3, 4)), means)
    assert [r.number for r in results] == [0, 1, 2, 5]
    assert results[-1].dropped == 2


def test_offline_has_no_latency_and_a_path_or_camera_number_is_a_source(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=12))
    results = run_loop(clip, means, pace="offline", batch_size=5)
    assert [r.number for r in results] == list(range(12))
    assert {r.latency_ms for r in results} == {None}
    with pytest.raises(OpenError, match="/dev/video97"):
        run_loop(97, means)


def test_a_file_beside_a_live_source_is_read_in_real_time(tmp_path):
    """So that latency has the same start for all sources, in any order."""
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=3))
    results = run_loop([clip, "test://?size=64x96&seconds=0.1"], means, pace="auto")
    assert sorted((r.source, r.number) for r in results) == [
        (s, k) for s in (0, 1) for k in range(3)
    ]
    assert all(r.latency_ms is not None for r in results)


def test_results_of_several_sources_have_their_source():
    results = run_loop(
        [FakeSource(count=4), FakeSource(count=6, captured=True)], means, batch_size=4
    )
    expected = [(0, k) for k in range(4)] + [(1, k) for k in range(6)]
    assert sorted((r.source, r.number) for r in results) == expected
    assert {r.captured_seconds is None for r in results if r.source == 1} == {False}
    assert {r.time_base for r in results} == {Fraction(1, 30)}


def test_the_result_of_a_clip_has_its_frames_and_the_newest_number():
    shapes = []

    def model(clips):
        shapes.append(tuple(clips.shape))
        return [len(clips)]

    results = run_loop(FakeSource(count=10), model, clip_len=4, clip_stride=2, clip_hop=3)
    assert [r.frames[:, 0, 0, 0].tolist() for r in results] == [[0, 2, 4, 6], [3, 5, 7, 9]]
    assert [r.number for r in results] == [6, 9]
    assert shapes == [(1, 4, 3, 4, 4)] * 2


def test_a_headrace_model_and_a_torchvision_name_give_labels():
    results = run_loop(FakeSource(count=3), tiny_classifier())
    assert [r.output.names for r in results] == [(("dark",),)] * 3
    results = run_loop(FakeSource(count=2), "squeezenet1_1", weights="none")
    assert [len(r.output.names) for r in results] == [1, 1]


class NormAndDropout(nn.Module):
    """Gives other results in training mode, and updates its statistics there."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm2d(3), nn.Dropout(0.5)

    def forward(self, batch):
        return self.drop(self.norm(batch.float())).mean(dim=(1, 2, 3))


def in_training():
    """Return a model in training mode with one layer in evaluation mode."""
    model = NormAndDropout()
    model.drop.eval()
    return model


def modes(model):
    return [part.training for part in model.modules()]


def as_headrace_model(model):
    """Return a headrace `Model` of a module."""
    return replace(tiny_classifier(), module=model, output=list)


@pytest.mark.parametrize("convert", [lambda model: model, as_headrace_model])
def test_a_module_in_training_mode_is_evaluated_and_restored(convert):
    model, evaluated = in_training(), NormAndDropout().eval()
    with pytest.warns(UserWarning, match="the model is in training mode") as warned:
        results = run_loop(FakeSource(count=6), convert(model), batch_size=2)
    assert len(warned) == 1
    expected = run_loop(FakeSource(count=6), convert(evaluated), batch_size=2)
    assert [float(r.output) for r in results] == [float(r.output) for r in expected]
    assert modes(model) == [True, True, False]
    assert int(model.norm.num_batches_tracked) == 0


def leave_early(model):
    for _ in headrace.live(Endless(count=10), model, clock=FakeClock()):
        assert modes(model) == [False] * 3
        break


def fail(model):
    hook = model.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(StageError, match="division by zero"):
        run_loop(FakeSource(count=3), model)
    hook.remove()


def never_start(model):
    headrace.live(FakeSource(count=3), model).close()


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("use", [leave_early, fail, never_start])
def test_the_mode_of_a_module_is_restored_however_the_loop_ends(use):
    model = in_training()
    in_time(lambda: use(model))
    assert modes(model) == [True, True, False]


@pytest.mark.parametrize("convert", [lambda model: model, lambda model: model.forward])
def test_models_run_without_gradients(convert):
    results = run_loop(FakeSource(count=2), convert(NormAndDropout().eval()))
    assert all(r.output.is_inference() for r in results)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_torchscript_module_is_a_model():
    scripted = torch.jit.script(NormAndDropout().eval())
    assert len(run_loop(FakeSource(count=2), scripted)) == 2


def test_the_mode_of_a_module_in_a_function_is_not_changed():
    model = in_training()
    run_loop(FakeSource(count=2), lambda batch: model(batch))
    assert int(model.norm.num_batches_tracked) == 2


def test_leaving_the_loop_ends_the_threads():
    def leave():
        for result in headrace.live(Endless(count=10), means, clock=FakeClock()):
            if result.number >= 3:
                break
        return [t.name for t in threading.enumerate() if t.name.startswith("headrace-")]

    assert in_time(leave) == []


def test_the_guide_names_exactly_the_fields_of_a_result():
    text = GUIDE.read_text("utf-8").partition("**Results** have ")[2].partition("Leaving")[0]
    properties = (name for name, value in vars(LiveResult).items() if isinstance(value, property))
    names = {field.name for field in fields(LiveResult)}.union(properties)
    assert sorted(re.findall(r"`(\w+)`", text)) == sorted(names)


def test_the_guide_names_every_drop_cause():
    causes = {STALE, INCOMPLETE, STRIDE, DAMAGED, NO_KEYFRAME, LATE, BACKLOG, SOURCE_FAILED}
    causes |= {OVERFLOW, SINK_FAILED, UNFINISHED}
    text = GUIDE.read_text("utf-8").partition("## Counts")[2].partition("\n\nThe latency")[0]
    assert (
        set(re.findall(r"^\| (?!Reason)([\w ]+) \|", text, re.M))
        | set(re.findall(r"\*([\w ]+)\*", text))
        == causes
    )


@needs_no_gpu
@pytest.mark.parametrize("model", [means, "squeezenet1_1"])
def test_a_missing_gpu_is_an_error_before_the_first_frame(model):
    with pytest.raises(BackendError, match="PyTorch sees no CUDA device"):
        headrace.live(FakeSource(count=3), model, device="cuda", weights="none")


def test_a_module_that_takes_no_bytes_fails_with_the_shape_of_its_batch():
    module = nn.Conv2d(3, 2, kernel_size=3).eval()
    words = (
        r"RuntimeError: Input type .*; its batch was uint8 \[1, 3, 4, 4\], .*: a callable converts"
    )
    with pytest.raises(StageError, match=words) as caught:
        run_loop(FakeSource(count=3), module)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert caught.value.stage == "model"
