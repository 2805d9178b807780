"""`headrace run --sink module:Class` with a class in a file of the user."""

import json
import sys
from typing import Final

import pytest

from cli.kit import FAST, reason, recorded
from headrace.testing.synth import SynthClip, write_clip

MINE = """
import json
import pathlib

import headrace

class Lines:
    outputs = ("mine.jsonl",)

    def open(self, context):
        self.file = (context.output_dir / "mine.jsonl").open("w")
        self.put("open", context.model, len(context.sources))

    def write(self, results):
        for k in range(len(results)):
            is_label = isinstance(results.labels.names[k][0], str) and results.boxes is None
            self.put("write", results.sources[k], int(results.index[k]),
                     float(results.pts_seconds[k]), is_label, results.frames is None)

    def close(self):
        self.put("close")
        self.file.close()

    def put(self, *row):
        self.file.write(json.dumps(row) + "\\n")

class Pixels(Lines):
    needs_frames = True
    outputs = "mine.jsonl"

    def write(self, results):
        self.put("write", list(results.frames.shape), str(results.frames.dtype))

class Async(Lines):
    async def write(self, results):
        pass

class Paths(Lines):
    outputs = (pathlib.Path("mine.jsonl"),)

class Half:
    def write(self, results): ...

def failing(name, error, *, is_later):
    def fail(self, *given):
        if is_later:
            getattr(Lines, name)(self, *given)
        raise error
    return type("Failing", (Lines,), {name: fail})

Full = failing("write", OSError("no room left"), is_later=True)
Leaky = failing("close", RuntimeError("not flushed"), is_later=True)
Unmade = failing("__init__", RuntimeError("no broker"), is_later=False)
Shut = failing("open", RuntimeError("no broker"), is_later=False)
function = print
headrace.Sink, headrace.ResultBatch, headrace.SinkContext
"""


RAISED: Final = f"mine.py:{MINE[: MINE.index('raise error')].count(chr(10)) + 1}"
"""File and line of the errors of failing sinks."""


@pytest.fixture
def good(tmp_path):
    return write_clip(tmp_path / "good", SynthClip(num_frames=6, size=(64, 96)))


@pytest.fixture
def sinks(tmp_path, monkeypatch):
    """Write `mine.py` into a folder on `sys.path`."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("import nothing_of_this_name")
    (tmp_path / "worse.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("mine", "broken", "worse"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(call, good, sinks, tmp_path):
    """Return a function: arguments -> exit code and stderr of a run with batches of 4."""

    def run(*words):
        out = tmp_path / "out"
        return call("run", good, *FAST, "--batch-size", 4, "--out", out, *words)[::2]

    return run


@pytest.fixture
def rows(tmp_path):
    """Return a function that reads the rows written by the sink."""
    path = tmp_path / "out" / "mine.jsonl"
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def test_a_class_in_a_local_file_is_a_sink_and_the_summary_labels_its_file(
    printed, good, sinks, rows, tmp_path
):
    out = tmp_path / "out"
    lines = printed("run", good, *FAST, "--out", out, "--sink", "mine:Lines").splitlines()
    moments = [pytest.approx(k / 30, abs=1e-3) for k in range(6)]
    frames = [["write", str(good), k, at, True, True] for k, at in enumerate(moments)]
    assert rows() == [["open", "squeezenet1_1", 1], *frames, ["close"]]
    session = recorded(out)
    assert session["outputs"][:2] == ["predictions.jsonl", "mine.jsonl"]
    assert session["provenance"]["configuration"]["sinks"] == "mine:Lines"
    assert lines[-3:] == [
        f"Predictions: {out}/predictions.jsonl",
        f"File of your sink: {out}/mine.jsonl",
        f"Report: {out}/report.html",
    ]


@pytest.mark.parametrize(
    ("words", "shapes"),
    [((), [4, 2]), (("--pace", "realtime", "--overload", "keep-all"), [1] * 6)],
    ids=["files", "live"],
)
def test_a_sink_with_needs_frames_gets_pixels(run, rows, tmp_path, words, shapes):
    out = tmp_path / "out"
    assert run("--sink", "mine:Pixels", *words) == (0, "")
    written = [["write", [number, 64, 96, 3], "uint8"] for number in shapes]
    assert rows()[1:] == [*written, ["close"]]
    assert recorded(out)["outputs"][:2] == ["predictions.jsonl", "mine.jsonl"]


@pytest.mark.parametrize("pace", ["offline", "realtime"])
@pytest.mark.parametrize(
    ("name", "failure", "written"),
    [
        ("Full", f"write at {RAISED}: OSError: no room left", ["open", "write", "close"]),
        ("Leaky", f"close at {RAISED}: RuntimeError: not flushed", ["open", "write", "close"]),
        ("Unmade", f"__init__ at {RAISED}: RuntimeError: no broker", []),
        ("Shut", f"open at {RAISED}: RuntimeError: no broker", []),
    ],
)
def test_a_failing_sink_is_named_and_its_rows_are_kept(
    run, rows, tmp_path, name, failure, written, pace
):
    code, err = run("--sink", f"mine:{name}", "--pace", pace)
    cause = f"the sink mine:{name} failed in {failure}"
    kept = "; completed work is kept in" if written else "\n"
    assert (code, f"headrace: {cause}{kept}" in err) == (1, True)
    session = recorded(tmp_path / "out")
    assert "predictions.jsonl" in session["outputs"] or not written
    assert list(dict.fromkeys(row[0] for row in (written and rows()))) == written
    # In a live run a sink that fails later ends alone, and the others get every frame.
    is_alone = pace == "realtime" and written
    assert (session["outcome"], session["error"]) == (
        ("complete", None) if is_alone else ("failed", cause)
    )


@pytest.mark.parametrize("pace", ["offline", "realtime"])
def test_debug_prints_the_traceback_of_a_failed_sink(run, pace):
    _, err = run("--sink", "mine:Full", "--pace", pace, "--debug")
    lines = err.splitlines()
    assert "Traceback (most recent call last):" in lines
    assert "OSError: no room left" in lines
    assert lines.count("    raise error") == 1


CLASS = "a sink is a class with open, write, close, but mine:"
REFUSED = {
    "mine": "a sink must be given as module:Class, got 'mine'",
    "mine.py:Lines": "a sink is named by its module, not its file: write mine:Lines, without .py",
    "mine:Line": "mine has no class Line; did you mean Lines?",
    "mine:Half": f"{CLASS}Half lacks open, close",
    "mine:function": f"{CLASS}function is not",
    "mime:Lines": "no module named mime; did you mean m",
    "headrace.sink:Lines": "no module named headrace.sink; did you mean sinks?; give module:",
    "broken:A": "cannot import broken: ModuleNotFoundError: No module named 'nothing_of_",
    "worse:A": "cannot import worse: ZeroDivisionError: division by zero",
}


@pytest.mark.parametrize(("number", "name"), [*enumerate(REFUSED)])
def test_an_invalid_sink_is_refused_before_anything_is_written(run, tmp_path, number, name):
    """Alternates runs on files and live runs, which both load sinks first."""
    code, err = run("--sink", name, *(("--pace", "realtime") if number % 2 else ()))
    message = f"headrace: {REFUSED[name]}"
    assert (code, reason(err)[: len(message)]) == (2, message)
    assert not (tmp_path / "out").exists()


def test_an_async_sink_and_a_sink_with_apply_advice_are_refused(run):
    code, err = run("--sink", "mine:Async")
    assert (code, "must not be async, but write of mine:Async is" in err) == (2, True)
    code, err = run("--sink", "mine:Lines", "--apply-advice")
    assert (code, "leave one of the two out" in err) == (2, True)


def test_outputs_of_a_sink_may_be_paths(run, tmp_path):
    assert run("--sink", "mine:Paths") == (0, "")
    assert "mine.jsonl" in recorded(tmp_path / "out")["outputs"]
