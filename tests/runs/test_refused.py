"""Error messages of runs, live runs, trainings and launches: see refused.txt."""

from pathlib import Path

import pytest
from PIL import Image

import headrace
from headrace.cli.launch_file import RunVocabulary, read_config
from headrace.cli.run import run
from headrace.decode import image_files
from headrace.models.results import BoxChoice
from headrace.runs import run_inputs, run_options, tracers
from headrace.runs.live import live_batches, live_sources
from headrace.runs.live.live_session import LiveRunner
from headrace.runs.model_setup import StartupTimer
from headrace.runs.retrain import frame_labels
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.synth import SynthClip, write_clip
from runs.kit import SQUEEZENET, options
from runs.live.fake_sources import FakeSource
from runs.live.test_live_pipeline import means
from runs.retrain.test_frame_labels import labels_of
from runs.retrain.toy import toy_runner
from tests.kit.page_names import names_in
from tests.kit.pages import calls_of, check_message

MODULES = (
    *(image_files, live_batches, live_sources, frame_labels, run_inputs, run_options),
    tracers,
)


@pytest.fixture
def names(prepare, toys, labelled_videos, tmp_path, monkeypatch):
    """Return the names that calls of the page use; the working folder is temporary."""
    monkeypatch.chdir(tmp_path)

    def new_path(name):
        Path(name).parent.mkdir(exist_ok=True)
        return Path(name)

    def write(name, content):
        new_path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return Path(name)

    def clip(name="clip"):
        return write_clip(new_path(name), SynthClip(num_frames=7, size=(64, 96)))

    def picture(name):
        Image.new("RGB", (64, 48)).save(new_path(name))
        return Path(name)

    def annotate(*sources, **values):
        model = {"model_name": "ssdlite320_mobilenet_v3_large", "weights": "none"}
        boxes = run_options.DetectionOptions(choice=BoxChoice())
        return prepare(sources, out=Path("out"), detection=boxes, **model, **values)

    def watch(source, out="out", **values):
        flat = {**SQUEEZENET, "pace": "realtime", **values}
        return LiveRunner.prepare(options(source, Path(out), **flat))

    return names_in(
        *MODULES,
        **{"annotate": annotate, "clip": clip, "picture": picture, "write": write, "watch": watch},
        options=lambda **values: options("a.mp4", Path("out"), **values),
        launch=lambda text: read_config(write("l.yaml", text), RunVocabulary(run)),
        live=lambda **kwargs: headrace.live(
            **{"source": FakeSource(count=1), "model": means, **kwargs}
        ),
        labelled=lambda *lines: labels_of(labelled_videos, *lines),
        labels=lambda text: frame_labels.read_labels(write("labels.csv", text)),
        prepare=lambda *args, **values: prepare(*args, **values, compiler=lambda module: module),
        retrain=lambda **values: toy_runner(toys, tmp_path / "out", **values),
        StartupTimer=lambda: StartupTimer(SYSTEM_CLOCK),
    )


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_invalid_options_are_refused_in_one_line_before_anything_is_written(names, call, message):
    assert "\n" not in str(check_message(call, message, names))
    folders = Path("out"), Path("run")
    assert not [path for out in folders for path in out.rglob("*") if path.is_file()]
