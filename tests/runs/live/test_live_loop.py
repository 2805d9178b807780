"""`for result in headrace.live(source, model)`: what a loop of one's own gets."""

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

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "live.md"


def results(source, model, **options):
    options = {"overload": "keep-all", "clock": FakeClock(), **options}
    return in_time(lambda: list(headrace.live(source, model, **options)))


def test_a_file_comes_frame_by_frame_with_its_times_and_answers(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=12))
    found = results(str(clip), means)
    assert [read_number(r.frames) for r in found] == list(range(12)) == [r.number for r in found]
    assert [r.pts_seconds for r in found] == pytest.approx([k / 30 for k in range(12)])
    assert {(r.source, r.source_name) for r in found} == {(0, str(clip))}
    for r in found:
        assert float(r.output) == pytest.approx(r.frames.mean(), rel=1e-4)
        assert r.latency_ms >= 0
        assert r.captured_seconds is None is r.capture_time


def test_a_result_says_when_its_frame_came_and_by_which_connection():
    """The clock of these tests stands at 2023-11-14T22:13:20Z when the loop begins."""
    found = results(FakeSource(count=3, interval_ms=250, captured=True, reconnects=(2,)), means)
    assert [(r.segment, iso_text(r.arrival_time)[17:26]) for r in found] == [
        *((0, "20.000000"), (0, "20.250000"), (1, "20.500000")),
    ]
    assert [r.capture_time for r in found] == [r.arrival_time for r in found]


def test_a_result_says_how_many_frames_were_dropped_so_far():
    found = results(FakeSource(count=6, dropped=(3, 4)), means)
    assert [r.number for r in found] == [0, 1, 2, 5]
    assert found[-1].dropped == 2


def test_at_full_speed_there_is_no_latency_and_a_path_or_a_number_is_a_source(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=12))
    found = results(clip, means, pace="offline", batch_size=5)
    assert [r.number for r in found] == list(range(12))
    assert {r.latency_ms for r in found} == {None}
    with pytest.raises(OpenError, match="/dev/video97"):
        results(97, means)


def test_a_file_beside_what_comes_by_itself_is_played(tmp_path):
    """All have one base of latency, in whatever order they are named."""
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=3))
    found = results([clip, "test://?size=64x96&seconds=0.1"], means, pace="auto")
    assert sorted((r.source, r.number) for r in found) == [(s, k) for s in (0, 1) for k in range(3)]
    assert all(r.latency_ms is not None for r in found)


def test_several_sources_make_batches_and_say_which_is_which():
    found = results([FakeSource(count=4), FakeSource(count=6, captured=True)], means, batch_size=4)
    expected = [(0, k) for k in range(4)] + [(1, k) for k in range(6)]
    assert sorted((r.source, r.number) for r in found) == expected
    assert {r.captured_seconds is None for r in found if r.source == 1} == {False}
    assert {r.time_base for r in found} == {Fraction(1, 30)}


def test_clips_carry_their_frames_and_the_times_of_the_newest():
    shapes = []

    def model(clips):
        shapes.append(tuple(clips.shape))
        return [len(clips)]

    found = results(FakeSource(count=10), model, clip_len=4, clip_stride=2, clip_hop=3)
    assert [r.frames[:, 0, 0, 0].tolist() for r in found] == [[0, 2, 4, 6], [3, 5, 7, 9]]
    assert [r.number for r in found] == [6, 9]
    assert shapes == [(1, 4, 3, 4, 4)] * 2


def test_a_model_of_headrace_gives_its_own_results_and_a_name_is_one_of_torchvision():
    found = results(FakeSource(count=3), tiny_classifier())
    assert [r.output.names for r in found] == [(("dark",),)] * 3
    found = results(FakeSource(count=2), "squeezenet1_1", weights="none")
    assert [len(r.output.names) for r in found] == [1, 1]


class Learner(nn.Module):
    """As most models: gives other results in training mode, and keeps what it saw there."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm2d(3), nn.Dropout(0.5)

    def forward(self, batch):
        return self.drop(self.norm(batch.float())).mean(dim=(1, 2, 3))


def in_training():
    """Return a model in training mode, one layer of which is frozen in evaluation mode."""
    model = Learner()
    model.drop.eval()
    return model


def modes(model):
    return [part.training for part in model.modules()]


def wrapped(model):
    """Return a model of headrace around one's own."""
    return replace(tiny_classifier(), module=model, output=list)


@pytest.mark.parametrize("given", [lambda model: model, wrapped])
def test_a_module_in_training_mode_is_evaluated_and_comes_back_as_it_was(given):
    model, expected = in_training(), Learner().eval()
    with pytest.warns(UserWarning, match="the model is in training mode") as told:
        found = results(FakeSource(count=6), given(model), batch_size=2)
    assert len(told) == 1
    other = results(FakeSource(count=6), given(expected), batch_size=2)
    assert [float(r.output) for r in found] == [float(r.output) for r in other]
    assert modes(model) == [True, True, False]
    assert int(model.norm.num_batches_tracked) == 0


def leave_early(model):
    for _ in headrace.live(Endless(count=10), model, clock=FakeClock()):
        assert modes(model) == [False] * 3
        break


def fail(model):
    hook = model.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(StageError, match="division by zero"):
        results(FakeSource(count=3), model)
    hook.remove()


def never_begin(model):
    headrace.live(FakeSource(count=3), model).close()


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("use", [leave_early, fail, never_begin])
def test_a_module_has_its_mode_back_however_the_loop_ends(use):
    model = in_training()
    in_time(lambda: use(model))
    assert modes(model) == [True, True, False]


@pytest.mark.parametrize("call", [lambda model: model, lambda model: model.forward])
def test_models_run_without_gradients(call):
    found = results(FakeSource(count=2), call(Learner().eval()))
    assert all(r.output.is_inference() for r in found)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_torchscript_is_a_model_as_any():
    scripted = torch.jit.script(Learner().eval())
    assert len(results(FakeSource(count=2), scripted)) == 2


def test_the_mode_of_what_a_function_calls_is_its_own():
    model = in_training()
    results(FakeSource(count=2), lambda batch: model(batch))
    assert int(model.norm.num_batches_tracked) == 2


def test_leaving_the_loop_ends_the_threads():
    def leave():
        for result in headrace.live(Endless(count=10), means, clock=FakeClock()):
            if result.number >= 3:
                break
        return [t.name for t in threading.enumerate() if t.name.startswith("headrace-")]

    assert in_time(leave) == []


def test_the_page_names_the_fields_of_a_result_and_no_others():
    text = PAGE.read_text("utf-8").partition("**Results** have ")[2].partition("Leaving")[0]
    properties = (name for name, value in vars(LiveResult).items() if isinstance(value, property))
    names = {field.name for field in fields(LiveResult)}.union(properties)
    assert sorted(re.findall(r"`(\w+)`", text)) == sorted(names)


def test_the_page_names_every_cause_of_a_drop():
    causes = {STALE, INCOMPLETE, STRIDE, DAMAGED, NO_KEYFRAME, LATE, BACKLOG, SOURCE_FAILED}
    causes |= {OVERFLOW, SINK_FAILED, UNFINISHED}
    text = PAGE.read_text("utf-8").partition("## Counts")[2].partition("\n\nThe latency")[0]
    assert (
        set(re.findall(r"^\| (?!Reason)([\w ]+) \|", text, re.M))
        | set(re.findall(r"\*([\w ]+)\*", text))
        == causes
    )


@needs_no_gpu
@pytest.mark.parametrize("model", [means, "squeezenet1_1"])
def test_a_gpu_that_is_not_here_is_named_before_the_first_frame(model):
    with pytest.raises(BackendError, match="PyTorch sees no CUDA device"):
        headrace.live(FakeSource(count=3), model, device="cuda", weights="none")
