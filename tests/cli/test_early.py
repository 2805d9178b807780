"""What is wrong with a command line is said before PyTorch is loaded, which takes long."""

import json

import pytest

from cli.kit import python, reason
from headrace.cli.early import check_batch_size
from headrace.errors import ConfigError
from headrace.testing.synth import SynthClip, write_clip

RUN_ALL = """
import contextlib, io, json, sys
from headrace.cli import main
found = []
for line in json.load(sys.stdin):
    said, code = io.StringIO(), 0
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(line.split())
        except SystemExit as end:
            code = end.code
    found.append([code, said.getvalue(), "torch" in sys.modules])
    if "torch" in sys.modules:
        break
print(json.dumps(found))
"""

WRONG = {
    "run gone.mp4": "cannot open gone.mp4",
    "run": "give a video, a folder, a camera or an address",
    "run clip.mp4 --core-bind 0-9999": "cores 0-9999 were asked for; this process may use",
    "run clip.mp4 --core-bind x": 'cores must read like "0-3,6" or "all"',
    "run clip.mp4 --batch-size 0": "must be >= 1, got '0'",
    "run clip.mp4 --batch-size x": "must be a whole number, or auto",
    "run clip.mp4 --stride 0": "must be >= 1",
    "run clip.mp4 --decode nope": "no way to decode 'nope'",
    "run clip.mp4 --weights gone.pt": "cannot read the weights file gone.pt",
    "run clip.mp4 --trace-steps 5": "needs a trace; add --trace",
    "run clip.mp4 --max-staleness x": "a span of time must read like",
    "run clip.mp4 --max-silence x": "a span of time must read like",
    "run clip.mp4 --rate x": "rate must be a finite number",
    "run clip.mp4 --out clip.mp4": "it is no folder",
    "run clip.mp4 --infer-on-gpu --device cpu": "it contradicts --device cpu",
    "run clip.mp4 --web-token-file gone": "--web-token-file",
    "run clip.mp4 --epochs 3": "is for --mode retrain",
    "run gone.mp4 --mode retrain": "cannot open gone.mp4",
    "run clip.mp4 --mode retrain --labels gone.csv": "cannot read the file of labels gone.csv",
    "run clip.mp4 --mode retrain --core-bind 0-9999": "cores 0-9999 were asked for",
    "run clip.mp4 --mode retrain --size x": "--size is a height and a width",
    "run clip.mp4 --mode retrain --held-out 3": "held_out is a share",
    "run clip.mp4 --mode retrain --batch-size auto": "a training takes a number",
    "launch gone.yaml": "cannot read gone.yaml",
    "launch bad.yaml": "bad.yaml:1: workers.a.core_bind: cores 0-9999 were asked for",
    "extract frames gone.mp4 -o out --every 1": "gone.mp4: no such file",
    "extract frames clip.mp4 -o out --fps x": "--fps takes a number",
    "extract frames clip.mp4 -o out --every 1 --size x": "--size is a height and a width",
    "extract frames clip.mp4 -o clip.mp4 --every 1": "clip.mp4",
    "extract features gone.mp4 -o out --every 1 --model-name resnet18": "gone.mp4: no such file",
    "extract features clip.mp4 -o out": "say which model",
    "extract aggregate gone -o x.parquet": "cannot read features from gone",
    "annotate gone.jpg": "cannot open gone.jpg",
    "annotate clip.mp4 --classes ,": "give names of classes",
    "annotate clip.mp4 --threshold 3": "threshold must lie in 0 to 1",
    "annotate clip.mp4 --weights gone.pt": "cannot read the weights file gone.pt",
    "annotate clip.mp4 --out clip.mp4": "it is no folder",
    "bench workers gone.mp4": "cannot open gone.mp4",
    "bench workers clip.mp4 --workers x": "numbers with commas between them, got 'x'",
    "bench stages gone.mp4": "cannot open gone.mp4",
    "bench sampling clip.mp4 --memory x": "a size must read like",
    "bench workers clip.mp4 --out clip.mp4": "cannot write into clip.mp4",
    "bench all clip.mp4 --only nope": "--only names no experiment",
    "plan clip.mp4 --memory x": "a size must read like",
    "proxy gone.mp4 -o out": "gone.mp4",
    "proxy clip.mp4 -o out --size x": "the size of proxies",
    "compare gone1 gone2": "cannot read gone1",
    "report gone": "cannot read gone",
}
"""Command line -> what is said of it."""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Return a mapping: command line -> (exit code, stderr, whether PyTorch was loaded)."""
    folder = tmp_path_factory.mktemp("early")
    write_clip(folder / "clip", SynthClip(num_frames=6))
    (folder / "bad.yaml").write_text("workers: {a: {source: clip.mp4, core_bind: 0-9999}}")
    done = python(RUN_ALL, input=json.dumps(list(WRONG)), cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(zip(WRONG, json.loads(done.stdout), strict=False))


@pytest.mark.parametrize(("line", "words"), WRONG.items())
def test_a_wrong_command_line_is_refused_without_pytorch(said, line, words):
    assert line in said, "an earlier line loaded PyTorch"
    code, err, has_torch = said[line]
    assert code in (1, 2)
    assert words in reason(err)
    assert not has_torch


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "²", ""])
def test_a_batch_size_is_a_whole_number_or_auto(text):
    with pytest.raises(ConfigError, match=r"must be (>= 1|a whole number, or auto), got"):
        check_batch_size(text)
