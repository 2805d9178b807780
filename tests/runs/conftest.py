"""Runners with a small real model, and with a tiny model."""

from pathlib import Path

import pytest

from headrace.decode.index_store import IndexStore
from headrace.runs.file_run import Runner
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.stream_index import StreamIndex
from runs.kit import SQUEEZENET, TALL, options, tiny_runner
from runs.retrain.toy import write_toys


@pytest.fixture(scope="session")
def toys(tmp_path_factory):
    """Return the folder of the toy videos and their labels."""
    return write_toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture(scope="session")
def labelled_videos(tmp_path_factory):
    """Return the indexes of a.mp4 and b.mp4: 30 frames in one second each."""
    folder = tmp_path_factory.mktemp("videos")
    clips = [write_clip(folder / name, SynthClip(num_frames=30)) for name in "ab"]
    return [StreamIndex.scan(clip) for clip in clips]


@pytest.fixture
def prepare(tmp_path):
    """Return a function: sources and flat options -> a runner, ready."""

    def make(sources: object, *, out: object = None, **values: object) -> Runner:
        arguments = {name: values.pop(name) for name in ("command", "compiler") if name in values}
        defaults = {**SQUEEZENET, "batch_size": 4}
        run_options = options(sources, out or tmp_path / "run", **defaults | values)
        return Runner.prepare(run_options, store=IndexStore(tmp_path / "store"), **arguments)

    return make


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


@pytest.fixture
def tall_clip(tmp_path) -> Path:
    return write_clip(tmp_path / "clip", TALL)


@pytest.fixture
def tiny(tall_clip, folder):
    """Return a function: module and options -> a run of a tiny model on the clip."""
    return lambda module=None, source=tall_clip, **kw: tiny_runner(source, folder, module, **kw)


@pytest.fixture(autouse=True)
def no_trials(monkeypatch):
    """Do not measure other settings after a run: each takes two seconds or more."""
    monkeypatch.setattr("headrace.runs.what_if.settings", lambda session: iter(()))
