"""`for result in headrace.live(source, model)`: what a loop of one's own gets."""

import threading
from fractions import Fraction

import pytest
import torch

import headrace
from decode.gpus import needs_no_gpu
from headrace.errors import BackendError, ConfigError, OpenError, StageError
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, read_number, write_clip
from runs.live.fake_sources import Endless, FakeSource
from runs.tiny import tiny_classifier
from runtime.in_time import in_time


def results(source, model, **options):
    options = {"overload": "every-frame", "clock": FakeClock(), **options}
    return in_time(lambda: list(headrace.live(source, model, **options)))


def means(batch):
    return batch.float().flatten(1).mean(dim=1)


def test_a_file_comes_frame_by_frame_with_its_times_and_answers(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=12))
    found = results(str(clip), means)
    assert [read_number(r.frames) for r in found] == list(range(12)) == [r.number for r in found]
    assert [r.pts_seconds for r in found] == pytest.approx([k / 30 for k in range(12)])
    assert {(r.source, r.source_name) for r in found} == {(0, str(clip))}
    for r in found:
        assert float(r.output) == pytest.approx(r.frames.mean(), rel=1e-4)
        assert r.latency_ms >= 0
        assert r.captured_seconds is None


def test_at_full_speed_there_is_no_latency(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=12))
    found = results(str(clip), means, pace="offline", batch_size=5)
    assert [r.number for r in found] == list(range(12))
    assert {r.latency_ms for r in found} == {None}


def test_a_path_and_the_number_of_a_camera_are_sources(tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=3))
    assert [r.number for r in results(clip, means, pace="offline")] == [0, 1, 2]
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
    assert sorted((r.source, r.number) for r in found) == [
        *((0, k) for k in range(4)),
        *((1, k) for k in range(6)),
    ]
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


def test_a_model_of_headrace_gives_its_own_results():
    found = results(FakeSource(count=3), tiny_classifier())
    assert [r.output.names for r in found] == [(("dark",),)] * 3


def test_a_name_is_a_model_of_torchvision():
    found = results(FakeSource(count=2), "squeezenet1_1", weights="none")
    assert [len(r.output.names) for r in found] == [1, 1]


def test_leaving_the_loop_ends_the_threads():
    def leave():
        for result in headrace.live(Endless(count=10), means, clock=FakeClock()):
            if result.number >= 3:
                break
        return [t.name for t in threading.enumerate() if t.name.startswith("headrace-")]

    assert in_time(leave) == []


def test_what_the_model_raises_reaches_the_loop():
    def broken(batch: torch.Tensor):
        raise ValueError("wrong shape")

    with pytest.raises(StageError, match="wrong shape"):
        results(FakeSource(count=3), broken)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 7}, "a model is a name, a headrace Model or a callable, got int"),
        ({"model": "resnet5O"}, "did you mean resnet50"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1"),
        ({"clip_len": 0}, "clip_len must be an integer >= 1"),
        ({"max_staleness": "fast"}, 'must read like "200ms"'),
        ({"overload": "some"}, "one of auto, every-frame, freshest"),
        ({"source": []}, "a source is needed"),
        ({"source": None}, "a source is an address, a path, the number of a camera.* got None"),
        ({"source": [True]}, "the number of a camera.* got True"),
        ({"source": b"0"}, "got b'0'"),
        ({"pace": "fast"}, "pace must be one of auto, offline, realtime, got 'fast'"),
        ({"max_staleness": 0.2}, 'must read like "200ms", "1.5s", "2min", "12h" or "30d", got 0.2'),
        ({"clip_len": 4, "clip_stride": 1.5}, "clip_stride must be an integer >= 1"),
        ({"clip_stride": 2}, "the model takes single frames"),
        ({"model": "squeezenet1_1", "weights": "none", "clip_hop": 2}, "takes single frames"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(options, message):
    given = {"source": FakeSource(count=1), "model": means, **options}
    with pytest.raises(ConfigError, match=message):
        headrace.live(**given)


@needs_no_gpu
@pytest.mark.parametrize("model", [means, "squeezenet1_1"])
def test_a_gpu_that_is_not_here_is_named_before_the_first_frame(model):
    with pytest.raises(BackendError, match="PyTorch sees no CUDA device"):
        headrace.live(FakeSource(count=3), model, device="cuda", weights="none")
