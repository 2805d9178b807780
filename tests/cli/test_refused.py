"""Refused command lines: message and exit code as in refused.txt, and no file is written."""

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
from headrace.extraction.features.table_store import write_tables
from headrace.testing.synth import SynthClip, write_clip
from loaders.cameras.clips import write_layout
from profiling.sessions import session
from report.recorded import SOURCE

PAGE = Path(__file__).with_name("refused.txt").read_text("utf-8")
LINES = {
    head: re.findall(r"^\$ headrace ?(.*)\n\[(\d)\] (.+)$", text, re.MULTILINE)
    for head, text in re.findall(r"^# (.+)\n((?:(?!# ).*\n)+)", PAGE, re.MULTILINE)
}
"""Heading -> (command line, exit code, message) of its section."""
RUN_ALL = """
import contextlib, io, json, shlex, sys
from headrace.cli import main
results = {}
for line in json.load(sys.stdin):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        try:
            main(shlex.split(line))
        except SystemExit as end:
            code = end.code
    results[line] = code, out.getvalue(), err.getvalue()
    if "torch" in sys.modules:
        sys.exit(f"PyTorch was loaded by {line}")
print(json.dumps(results))
"""


def lines(heads):
    rows = [
        pytest.param(*row, id=row[0], marks=heads[head]) for head in heads for row in LINES[head]
    ]
    return pytest.mark.parametrize(("line", "code", "message"), rows)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Folder with a file of each kind that commands read."""
    folder = tmp_path_factory.mktemp("here")
    clip = write_clip(folder / "clip", SynthClip(b_frames=2, size=(64, 96)))
    (folder / "cut.mp4").write_bytes(clip.read_bytes()[:200])
    (folder / "bad.yaml").write_text("workers: {a: {source: clip.mp4, core_bind: 0-9999}}")
    write_pictures(folder / "frames", 12)
    write_layout(folder / "videos", {"a": 5})
    (folder / "index.json").write_text('{"videos": {"a": 5}}')
    write_pictures(folder / "set" / "a" / "front", 6)
    (folder / "pictures.json").write_text('{"set": {"a": 6}}')
    for name in ("empty", "a", "b", "bench", "ranks", "runs/a", "features"):
        (folder / name).mkdir(parents=True)
    for number, name in enumerate(("a", "b", "runs/a")):
        video = SOURCE.model_copy(update={"content": f"sha256:{number}"})
        session(number + 1, inputs=(video,)).save(folder / name / "session.json")
    for name in ("bench/workers.json", "bench/sampling.json", "ranks/ranks.json", "both.json"):
        (folder / name).write_text("{}")
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


def check_result(result: tuple[int, str, str], code: str, message: str) -> None:
    """Compare (exit code, stdout, stderr) with the page, where `...` matches any text."""
    assert (str(result[0]), result[1]) == (code, ""), result
    pattern = ".*".join(map(re.escape, message.split("...")))
    assert re.fullmatch(pattern, reason(result[2])), result
    assert not [part for part in ("bob:", "secret", "cret@") if part in result[2]]


@pytest.fixture
def check_refused(call, here, monkeypatch):
    """Return a function that checks a command line, its exit code and its message."""
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("HEADRACE_CACHE", str(here / "mine" / FILE))
    monkeypatch.delenv("HEADRACE_WEB_TOKEN", raising=False)
    before = files_below(here)

    def check(line: str, code: str, message: str, *, writes_nothing: bool = True) -> None:
        result = call(*shlex.split(line.replace("PYTHON", sys.executable)))
        check_result(result, code, message)
        assert files_below(here) == before or not writes_nothing

    return check


@pytest.fixture(scope="module")
def without_pytorch(here):
    """Results of the command lines in one process that does not load PyTorch."""
    before = files_below(here)
    command_lines = json.dumps([line for line, *_ in LINES["before PyTorch is loaded"]])
    done = python(RUN_ALL, input=command_lines, cwd=here)
    assert done.returncode == 0, done.stderr
    assert files_below(here) == before
    return json.loads(done.stdout)


def test_every_line_of_the_page_is_tested():
    assert sum(map(len, LINES.values())) == PAGE.count("$ headrace")
    moments = ("before PyTorch is loaded", "as the command begins", "once the model is loaded")
    lacks = ("where packages are missing", "where there is no GPU", "where torchcodec is")
    assert tuple(LINES) == (*moments, *lacks)


@lines({"before PyTorch is loaded": ()})
def test_an_invalid_command_line_is_refused_without_pytorch(without_pytorch, line, code, message):
    check_result(without_pytorch[line], code, message)


@lines(
    {
        "as the command begins": (),
        "where there is no GPU": needs_no_gpu,
        "where torchcodec is": needs_torchcodec,
    }
)
def test_an_invalid_command_is_refused_in_one_line(check_refused, line, code, message):
    check_refused(line, code, message)


@lines({"once the model is loaded": ()})
def test_an_option_unsupported_by_the_model_is_refused_in_one_line(
    check_refused, line, code, message
):
    check_refused(line, code, message, writes_nothing=False)


@lines({"where packages are missing": ()})
def test_a_missing_package_is_named(check_refused, monkeypatch, line, code, message):
    for package in ("nvtx", "tensorboard", "torchcodec"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    check_refused(line, code, message)


def test_debug_prints_the_traceback_at_any_position(call, here, monkeypatch):
    monkeypatch.chdir(here)
    code, _, err = call("clip", "clip.mp4", "--start", "47", "--debug")
    assert code == 2
    assert err.startswith("Traceback (most recent call last)")
    assert "headrace.errors.ConfigError: " in err
