"""What a command refuses: in the words of a page, by its exit code, and nothing is written."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from cache.made import arrays, key
from cli.kit import python, reason, write_pictures
from decode.backends import needs_torchcodec
from decode.gpus import needs_no_gpu
from extraction.features.feature_rows import facts, row
from headrace.cache.cache_url import FILE, open_cache
from headrace.extraction.features.feature_table import write_tables
from headrace.testing.synth import SynthClip, write_clip
from loaders.cameras.clips import write_layout
from profiling.comparison.simulated import session
from report.recorded import SOURCE

PAGE = Path(__file__).with_name("refused.txt").read_text("utf-8")
LINES = {
    head: re.findall(r"^\$ headrace ?(.*)\n\[(\d)\] (.+)$", text, re.MULTILINE)
    for head, text in re.findall(r"^# (.+)\n((?:(?!# ).*\n)+)", PAGE, re.MULTILINE)
}
"""Where it is so -> command lines, their exit codes and what is said of them."""
RUN_ALL = """
import contextlib, io, json, shlex, sys
from headrace.cli import main
found = {}
for line in json.load(sys.stdin):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        try:
            main(shlex.split(line))
        except SystemExit as end:
            code = end.code
    found[line] = code, out.getvalue(), err.getvalue()
    if "torch" in sys.modules:
        sys.exit(f"PyTorch was loaded by {line}")
print(json.dumps(found))
"""


def lines(heads):
    rows = [
        pytest.param(*row, id=row[0], marks=heads[head]) for head in heads for row in LINES[head]
    ]
    return pytest.mark.parametrize(("line", "code", "words"), rows)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with something of each kind that a command reads."""
    folder = tmp_path_factory.mktemp("here")
    clip = write_clip(folder / "clip", SynthClip(b_frames=2, size=(64, 96)))
    (folder / "cut.mp4").write_bytes(clip.read_bytes()[:200])
    (folder / "bad.yaml").write_text("workers: {a: {source: clip.mp4, core_bind: 0-9999}}")
    write_pictures(folder / "frames", 12)
    write_layout(folder / "videos", {"a": 5})
    (folder / "index.json").write_text('{"videos": {"a": 5}}')
    write_pictures(folder / "set" / "a" / "front", 6)
    (folder / "pictures.json").write_text('{"set": {"a": 6}}')
    for name in ("empty", "a", "b", "bench", "runs/a", "features"):
        (folder / name).mkdir(parents=True)
    for number, name in enumerate(("a", "b", "runs/a")):
        video = SOURCE.model_copy(update={"content": f"sha256:{number}"})
        session(number + 1, inputs=(video,)).save(folder / name / "session.json")
    (folder / "bench" / "workers.json").write_text("{}")
    list(write_tables(folder / "features", [row("park", 0, 8, lost=())], facts()))
    for name in ("taken.parquet", "labels.csv", "train.py", "zero.mp4"):
        (folder / name).touch()
    (folder / "lost.csv").write_text("path,label\ngone.mp4,cats\n")
    (folder / "list.txt").write_text("clip.mp4\n\ngone.mp4\n")
    (folder / "tokens").mkdir()
    tokens = {"empty": b"", "bytes": b"\xff" * 20, "short": b"short"}
    tokens["words"] = b"two words, and more"
    for name, content in tokens.items():
        (folder / "tokens" / name).write_bytes(content)
    (folder / "own_model.py").write_text("from torch.nn import Identity as build")
    with open_cache(str(folder / "mine" / FILE)) as cache:
        cache.put({key(): arrays()})
    return folder


def files_below(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc")


def check_said(found: tuple[int, str, str], code: str, words: str) -> None:
    """Hold exit code, stdout and stderr against the page, where `...` stands for any text."""
    assert (str(found[0]), found[1]) == (code, ""), found
    assert re.fullmatch(".*".join(map(re.escape, words.split("..."))), reason(found[2])), found
    assert not [part for part in ("bob:", "secret", "cret@") if part in found[2]]


@pytest.fixture
def check_refused(call, here, monkeypatch):
    """Return a function: command line, its exit code, what is said -> None."""
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("HEADRACE_CACHE", str(here / "mine" / FILE))
    monkeypatch.delenv("HEADRACE_WEB_TOKEN", raising=False)
    before = files_below(here)

    def check(line: str, code: str, words: str, *, leaves_nothing: bool = True) -> None:
        check_said(call(*shlex.split(line.replace("PYTHON", sys.executable))), code, words)
        assert files_below(here) == before or not leaves_nothing

    return check


@pytest.fixture(scope="module")
def without_pytorch(here):
    """What each line is refused with in one process that never loads PyTorch."""
    before = files_below(here)
    asked = json.dumps([line for line, *_ in LINES["before PyTorch is loaded"]])
    done = python(RUN_ALL, input=asked, cwd=here)
    assert done.returncode == 0, done.stderr
    assert files_below(here) == before
    return json.loads(done.stdout)


def test_every_line_of_the_page_is_tried():
    assert sum(map(len, LINES.values())) == PAGE.count("$ headrace")
    moments = ("before PyTorch is loaded", "as the command begins", "once the model is loaded")
    lacks = ("where packages are missing", "where there is no GPU", "where torchcodec is")
    assert tuple(LINES) == (*moments, *lacks)


@lines({"before PyTorch is loaded": ()})
def test_a_wrong_command_line_is_refused_without_pytorch(without_pytorch, line, code, words):
    check_said(without_pytorch[line], code, words)


@lines(
    {
        "as the command begins": (),
        "where there is no GPU": needs_no_gpu,
        "where torchcodec is": needs_torchcodec,
    }
)
def test_what_cannot_be_is_refused_in_one_line(check_refused, line, code, words):
    check_refused(line, code, words)


@lines({"once the model is loaded": ()})
def test_what_the_model_cannot_do_is_refused_in_one_line(check_refused, line, code, words):
    check_refused(line, code, words, leaves_nothing=False)


@lines({"where packages are missing": ()})
def test_a_package_that_is_missing_is_named(check_refused, monkeypatch, line, code, words):
    for package in ("nvtx", "tensorboard", "torchcodec"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    check_refused(line, code, words)


def test_debug_shows_the_traceback_wherever_it_stands(call, here, monkeypatch):
    monkeypatch.chdir(here)
    code, _, err = call("clip", "clip.mp4", "--start", "47", "--debug")
    assert code == 2
    assert err.startswith("Traceback (most recent call last)")
    assert "headrace.errors.ConfigError: " in err
