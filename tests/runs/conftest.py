"""Runners: with a real, small model, and with one that costs nothing."""

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
    """Return the folder of the toys and their labels."""
    return write_toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture(scope="session")
def labelled_videos(tmp_path_factory):
    """Return the indexes of a.mp4 and b.mp4, of 30 frames in a second each."""
    folder = tmp_path_factory.mktemp("videos")
    clips = [write_clip(folder / name, SynthClip(num_frames=30)) for name in "ab"]
    return [StreamIndex.scan(clip) for clip in clips]


@pytest.fixture
def prepare(tmp_path):
    """Return a function: sources, options from a flat list -> a runner that is ready."""

    def make(sources: object, *, out: object = None, **given: object) -> Runner:
        ready = {name: given.pop(name) for name in ("command", "compiler") if name in given}
        plain = {**SQUEEZENET, "batch_size": 4}
        chosen = options(sources, out or tmp_path / "run", **plain | given)
        return Runner.prepare(chosen, store=IndexStore(tmp_path / "store"), **ready)

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
    """Return a function: module and options -> a run over the clip whose model costs nothing."""
    return lambda module=None, source=tall_clip, **more: tiny_runner(source, folder, module, **more)


@pytest.fixture(autouse=True)
def no_trials(monkeypatch):
    """Other settings are not tried behind a run: that takes two seconds or more of each."""
    monkeypatch.setattr("headrace.runs.what_if.settings", lambda session: iter(()))
