"""Trainings, from labelled videos to head, session and accuracy."""

import csv
import io
import json
from dataclasses import replace

import pytest
import torch

from cli.kit import python
from headrace.decode.read_clip import load_clip
from headrace.errors import ConfigError
from headrace.models.load import load_classifier
from headrace.profiling.findings.verdict import find
from headrace.profiling.metrics import metrics_csv
from headrace.profiling.session import Session
from headrace.report.folder import write_run
from headrace.runs.retrain.retrain_session import RetrainRunner
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, write_clip
from runs.kit import check_checkpoints
from runs.retrain.toy import FRAMES, toy_runner, write_labels, write_toys
from weights import mobilenet

PREDICT = f"""
import json, sys
from headrace.decode.read_clip import load_clip
from headrace.models.load import load_classifier
from headrace.preprocess.levels import build_preprocess
model = load_classifier("mobilenet_v2", sys.argv[1])
frames = load_clip(sys.argv[2], 0, {FRAMES}, 1).frames
labels = model.run(build_preprocess("medium", model.input)(frames))
print(json.dumps([labels.names, [row[0].hex() for row in labels.confidence]]))
"""


@pytest.fixture(scope="module")
def trained(toys, tmp_path_factory):
    """Return the runner, session and folder of a complete training with real weights."""
    out = tmp_path_factory.mktemp("trained")
    model = {"model_name": "mobilenet_v2", "weights": str(mobilenet())}
    runner = toy_runner(toys, out, **model, epochs=2, held_out=0.3, learning_rate=3e-3)
    return runner, write_run(runner.run(), out), out


@pytest.fixture
def toy(toys, tmp_path):
    """Return a function: options -> a training of a small model on the toy videos."""
    return lambda folder=toys, out=tmp_path, **values: toy_runner(folder, out, **values)


def test_the_loss_falls_and_held_out_videos_are_classified(trained):
    _, session, _ = trained
    losses = session.steps.loss
    assert sum(losses[-4:]) < 0.5 * sum(losses[:4])
    accuracy = session.training.accuracy
    assert accuracy.right / accuracy.frames > 0.9 > accuracy.most_frequent / accuracy.frames
    assert session.training.classes == ("bars", "waves")
    assert (session.outcome, session.error, session.kind) == ("complete", None, "retrain")


def test_a_new_process_makes_the_same_predictions(trained, toys):
    runner, _, out = trained
    video = str(toys / "waves2.mp4")
    process = python(PREDICT, out / "head.pt", video)
    frames = load_clip(video, 0, FRAMES, 1).frames
    labels = runner.learner.model.run(runner.learner.preprocess(frames))
    confidence = [row[0].hex() for row in labels.confidence]
    assert json.loads(process.stdout) == [[list(row) for row in labels.names], confidence]
    assert {row[0] for row in labels.names} == {"waves"}


def test_no_frame_of_a_held_out_video_is_trained_on(trained):
    runner, session, _ = trained
    dataset = runner.dataset
    assert len(dataset.held_out) == 2
    assert set(session.steps.input) <= set(dataset.training_videos)
    assert not set(dataset.training_videos) & dataset.held_out
    trained_videos = {
        dataset.training_videos[v]
        for b in dataset.training_loader(4, epochs=1, clock=runner.clock)
        for v in b.video.tolist()
    }
    assert trained_videos == set(dataset.training_videos)


def test_the_record_times_each_part_of_a_step(trained):
    _, session, out = trained
    parts = ["data", "preprocess", "forward", "backward", "optimizer"]
    assert [stage.name for stage in session.stages] == parts
    assert list(session.steps.work_ms) == parts
    assert all(
        step.service_ms <= step.total_ms * 1.001 and step.loss is not None
        for step in session.steps.rows()
    )
    assert sum(session.steps.frames) == 2 * session.training.frames
    rows = list(csv.DictReader(io.StringIO(metrics_csv(session))))
    assert list(rows[0])[:6] == [
        *("step", "read_latency_ms", "prep_latency_ms", "exec_latency_ms"),
        *("total_step_latency_ms", "loss"),
    ]
    for row in rows:
        work = sum(float(row[f"{part}_latency_ms"]) for part in parts[2:])
        assert float(row["exec_latency_ms"]) == pytest.approx(work, abs=0.01)
    assert Session.load(out / "session.json") == session
    assert find(session)
    assert "Loss over the steps" in (out / "report.html").read_text()


def test_equal_seeds_give_equal_losses(toy):
    losses = [toy(seed=seed, max_steps=2).run().steps.loss for seed in (3, 3, 4)]
    assert losses[0] == losses[1] != losses[2]


def test_an_interrupt_saves_the_current_head(toy, tmp_path):
    def stop(step):
        if step.step == 1:
            raise KeyboardInterrupt

    runner = toy(epochs=9)
    session = runner.run(stop)
    assert (session.outcome, len(session.steps)) == ("interrupted", 2)
    assert session.outputs == ("head.pt",)
    assert session.training.accuracy is None
    assert session.training.not_measured == "the training did not complete"
    saved = torch.load(tmp_path / "head.pt", weights_only=True)
    current = runner.learner.model.module.state_dict()
    assert all(torch.equal(current[name], value) for name, value in saved["state_dict"].items())


def test_a_divergent_training_fails_without_a_head(toy, tmp_path):
    session = toy(learning_rate=1e37, epochs=3).run()
    assert (session.outcome, session.outputs) == ("failed", ())
    assert "use a smaller --learning-rate than 1e+37" in session.error
    assert not (tmp_path / "head.pt").exists()


def test_layers_are_trained_and_saved_with_the_head_also_if_recomputing(toy, tmp_path):
    values = {"train_from": "features.11", "max_steps": 3}
    plain, recomputing = (toy(checkpoint_gradients=flag, **values) for flag in (False, True))
    assert plain.run().steps.loss == recomputing.run().steps.loss
    loaded = load_classifier("squeezenet1_1", str(tmp_path / "head.pt")).module
    before = load_classifier("squeezenet1_1", "none").module.state_dict()
    current = recomputing.learner.model.module.state_dict()
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, current[name])
        if not name.startswith("classifier"):
            is_trained = name.startswith(("features.11", "features.12"))
            assert torch.equal(value, before[name]) != is_trained


def test_without_labels_the_training_uses_dummies(toy, tmp_path):
    training = toy(labels=None, max_steps=2).run().training
    assert (training.is_dummy, len(training.classes)) == (True, 10)
    assert training.not_measured.startswith("the labels are random dummies")
    assert load_classifier("squeezenet1_1", str(tmp_path / "head.pt"))


def test_one_video_per_class_gives_no_accuracy(toy, toys, tmp_path):
    labels = write_labels(tmp_path / "labels.csv", [f"{toys}/bars0.mp4,a", f"{toys}/waves0.mp4,b"])
    sources = [toys / "bars0.mp4", toys / "waves0.mp4"]
    training = toy(sources=sources, labels=labels, max_steps=1).run().training
    assert "label two or more videos of each class" in training.not_measured
    assert training.frames == FRAMES + FRAMES + 3


def test_videos_of_different_sizes_need_a_size(toy, toys, tmp_path):
    wide = write_clip(tmp_path / "wide", SynthClip(num_frames=4, size=(64, 256)))
    labels = write_labels(tmp_path / "labels.csv", [f"{toys}/bars0.mp4,a", "wide.mp4,b"])
    values = {"sources": [toys / "bars0.mp4", wide], "labels": labels}
    with pytest.raises(ConfigError, match=r"bars0.mp4 has 96x128, .*wide.mp4 64x256; .*--size"):
        toy(**values)
    assert toy(**values, size=(64, 64), max_steps=1).run().outcome == "complete"


def test_with_skip_bad_media_are_listed(toy, tmp_path):
    folder = tmp_path / "toys"
    folder.mkdir()
    write_toys(folder)
    (folder / "bars1.mp4").write_bytes(b"no video at all")
    session = toy(folder, on_error="skip", max_steps=2).run()
    assert session.outcome == "complete"
    assert sum(video.is_open for video in session.inputs) == 5
    assert "bars1.mp4" in session.lost[0].cause
    assert session.inputs[session.lost[0].input].path.endswith("bars1.mp4")


def test_a_head_is_neither_trained_on_a_head_nor_written_over_its_weights(toy, tmp_path):
    toy(max_steps=1).run()
    head = str(tmp_path / "head.pt")
    with pytest.raises(ConfigError, match="would replace the initial weights"):
        toy(weights=head)
    with pytest.raises(ConfigError, match="is a trained head"):
        toy(out=tmp_path / "other", weights=head)


def test_records_are_passed_on_during_the_training(toy):
    runner = replace(toy(max_steps=4), clock=FakeClock())
    _, second, *_, session = check_checkpoints(runner, RetrainRunner.run)
    assert second.inputs[0].content is None
    assert session.inputs[0].content is not None
