"""`headrace profile` runs a script unchanged and reports on its loops at the end.

With `--apply-advice` the script runs twice, and the gain is reported. With torchrun, each rank is
profiled, and the late one is named.
"""

import json
import re
import signal
import sys
from pathlib import Path

import pytest

from cli.kit import interrupted, profiled
from headrace.cli.profile import Launch, count_headrace_arguments, find_launch, profile_twice
from headrace.cli.signals import ChildEnd
from headrace.errors import ConfigError
from headrace.testing.synth import SynthClip
from profiling.loops import Loop, profile_loop

TRAIN = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset
import beside

HEAVY = ("pydantic", "av", "headrace.loaders", "headrace.decode", "headrace.report", "plotly")

class Numbers(Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, index):
        return torch.zeros(3), index

if __name__ == "__main__":
    print(sys.argv[1:], beside.WORD, __name__)
    workers = int(sys.argv[1])
    start = "spawn" if workers else None
    loader = DataLoader(Numbers(), 2, num_workers=workers, multiprocessing_context=start)
    indices = [int(index) for _, batch in loader for index in batch]
    print(sum(indices), [name for name in sys.modules if name.startswith(HEAVY)])
    if "inside" in sys.argv:
        import headrace
        for workers in (0, 1):
            with headrace.profile_loader(DataLoader(Numbers(), 4, num_workers=workers)) as loop:
                print(sum(int(index) for _, batch in loop for index in batch))
            print(len(loop.session.steps))
    if "fail" in sys.argv:
        raise ValueError("no more")
    sys.exit(3)
"""
ENDLESS = """
import sys
from torch.utils.data import DataLoader

for batch in DataLoader(list(range(20))):
    pass
print("ready", flush=True)
sys.stdin.read()
"""
PYTHON = ("--", sys.executable)


@pytest.fixture
def script(tmp_path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    return tmp_path


def test_arguments_output_and_exit_code_are_those_of_the_script(script) -> None:
    """Also for a module that spawned workers import; no records or loaders are imported for it."""
    words = ("-m", "train", "1", "--debug", "--out", "x")
    done = profiled(script, "--json", "sessions.json", *PYTHON, *words)
    assert done.stdout == "['1', '--debug', '--out', 'x'] beside __main__\n1770 []\n"
    assert done.returncode == 3
    lines = done.stderr.splitlines()
    assert lines[0].startswith("headrace: ")
    (about,) = [line for line in lines if "DataLoader of Numbers" in line]
    assert about.startswith("  DataLoader of Numbers at train.py:20: 30 steps in ")
    assert about.endswith(", failed")  # by its exit code
    (session,) = json.loads((script / "sessions.json").read_text())
    assert session["loader"]["workers"] == 1
    typed = ["headrace", "profile", "--json", "sessions.json", *PYTHON, *words]
    assert session["provenance"]["command"] == typed
    assert set(session["steps"]["work_ms"]) == {"fetch", "collate", "step"}


def test_a_failing_script_prints_its_traceback_and_each_loop_has_a_report(script) -> None:
    """Two loops are also profiled by `profile_loader`, and so reported twice."""
    report = script / "report"
    done = profiled(script, "--out", report, *PYTHON, "train.py", "0", "inside", "fail")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == ["1770 []", *["1770", "15"] * 2]
    assert done.stderr.count("DataLoader of Numbers") == 5
    lines = done.stderr.splitlines()
    trace = lines.index("Traceback (most recent call last):")
    assert lines[trace + 1] == '  File "train.py", line 29, in <module>'
    reports = lines.index(f"headrace: reports are in {report}")
    assert lines.index("ValueError: no more") < reports
    assert (report / "loop_3" / "report.html").is_file()
    assert (report / "loop_2" / "session.json").is_file()


def test_a_script_that_fails_with_an_open_loader_prints_its_own_error_alone(
    written, tmp_path
) -> None:
    """Iterators end before Python clears modules, where closing a video would fail."""
    loader = f"headrace.FrameLoader([{str(written(SynthClip()))!r}], batch_size=2)"
    code = f"import headrace\nbatches = iter({loader})\nnext(batches)\ndict()['label']\n"
    (tmp_path / "videos.py").write_text(code)
    done = profiled(tmp_path, *PYTHON, "videos.py")
    assert done.returncode == 1
    assert "KeyError: 'label'" in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("flags", [[], ["--apply-advice"]], ids=["once", "twice"])
def test_ctrl_c_ends_a_script_as_in_python_and_its_loops_are_reported(tmp_path, flags) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    code, err = interrupted(tmp_path, *flags, *PYTHON, "endless.py", after="ready\n")
    assert code == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    assert "20 steps in " in err


def test_a_script_without_loops_is_reported_and_does_not_load_torch(tmp_path) -> None:
    (tmp_path / "plain.py").write_text("import sys; print('torch' in sys.modules)")
    done = profiled(tmp_path, *PYTHON, "plain.py")
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert done.stderr == (
        "headrace: plain.py took no batch from a DataLoader or a headrace loader, so no loop was "
        "profiled; processes that the script starts are not profiled\n"
    )


LINES = {
    **{"run a.mp4 --debug": 3, "profile -- python x.py --debug": 1, "": 0},
    **{"profile --out x python x.py --debug": 3, "profile --debug -- python x.py": 2},
    "profile --apply-advice python x.py --debug": 2,
}


def test_arguments_of_the_script_are_not_headraces() -> None:
    for line, count in LINES.items():
        assert count_headrace_arguments(line.split()) == count, line


WAITING = Loop(fetch=40, step=20)
AFTER = WAITING.with_(workers=2)


class Script:
    """Fake script: the end and the loops of each run are given."""

    def __init__(self, *runs: tuple[ChildEnd, list[Loop] | None]) -> None:
        self._runs = list(runs)
        self.outputs: list[dict[str, object]] = []

    def __call__(self, outputs, stdout) -> ChildEnd:
        assert stdout == (2 if self.outputs else None)  # only the first run prints to stdout
        self.outputs.append(outputs)
        end, loops = self._runs.pop(0)
        if loops is not None:
            sessions = [profile_loop(plan).model_dump(mode="json") for plan in loops]
            outputs["json"].write_text(json.dumps(sessions))
        return end


def ended(code: int = 0, *, is_interrupted: bool = False) -> ChildEnd:
    return ChildEnd(code=code, is_interrupted=is_interrupted)


def test_the_second_run_has_the_change_and_both_are_recorded(tmp_path, capsys) -> None:
    script = Script((ended(), [WAITING]), (ended(), [AFTER]))
    kept = tmp_path / "both.json"
    assert profile_twice(script, tmp_path / "out", kept) == 0
    first, second = script.outputs
    assert (first["out"], second["out"]) == (tmp_path / "out", tmp_path / "out" / "tried")
    assert "change" not in first
    assert second["change"] == {
        "loop": profile_loop(WAITING).provenance.configuration,
        "options": {"num_workers": 2},
        "words": "num_workers=2 at train.py:18",
    }
    err = capsys.readouterr().err
    assert err.startswith(TRYING)
    assert re.fullmatch(
        r"headrace: Tried num_workers=2 at train\.py:18: [0-9.]+ times as fast \([0-9.]+ ms a step "
        r"before, [0-9.]+ ms after\); [0-9.]+ times were predicted\. ",
        err.removeprefix(TRYING).replace("\n  ", " ").replace("\n", " "),
    )
    assert max(map(len, err.splitlines())) <= 80
    sessions = json.loads(kept.read_text())
    workers = {name: [each["loader"]["workers"] for each in sessions[name]] for name in sessions}
    assert workers == {"before": [0], "after": [2]}


TRYING = "headrace: Trying num_workers=2 at train.py:18: the script runs a second time ...\n"
MESSAGES = (
    "headrace: Tried no change, because the script ",
    f"{TRYING}headrace: Tried num_workers=2 at train.py:18: the gain is unknown, because the "
    "second run ",
)
"""stderr if the first run ends badly, if the second does."""
INTERRUPTED, FIRST = ended(-2, is_interrupted=True), (ended(), [WAITING])
ENDS = {
    "the first fails": ([(ended(3), [WAITING])], 3, "ended with exit code 3"),
    "the first is killed": ([(ended(-9), None)], -9, "was ended by signal 9"),
    "the first is interrupted": ([(INTERRUPTED, [WAITING])], -2, "was interrupted"),
    "and ends well": ([(ended(is_interrupted=True), [WAITING])], 0, "was interrupted"),
    "the second fails": ([FIRST, (ended(1), None)], 0, "ended with exit code 1"),
    "the second crashes": ([FIRST, (ended(-11), None)], 0, "was ended by signal 11"),
    "the second is interrupted": ([FIRST, (INTERRUPTED, None)], -2, "was interrupted"),
}


@pytest.mark.parametrize(("runs", "code", "end"), ENDS.values(), ids=ENDS)
def test_after_a_failed_run_no_gain_is_printed_and_records_are_kept(
    runs, code, end, tmp_path, capsys
):
    kept = tmp_path / "both.json"
    assert profile_twice(Script(*runs), None, kept) == code
    assert capsys.readouterr().err.replace("\n  ", " ") == f"{MESSAGES[len(runs) - 1]}{end}.\n"
    sessions = json.loads(kept.read_text())
    assert (len(sessions["before"]), sessions["after"]) == (len(runs[0][1] or []), [])


@pytest.mark.parametrize("loops", [None, [], [WAITING.with_(steps=5)]])
def test_without_a_change_to_try_the_script_runs_once(loops, capsys) -> None:
    script = Script((ended(), loops))
    assert profile_twice(script, None, None) == 0
    assert capsys.readouterr().err.startswith("headrace: Nothing to try")


WAITS = """
import signal
import sys

if sys.argv[1:]:
    signal.signal(int(sys.argv[1]), lambda number, frame: sys.exit(5))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_handled", [False, True])
def test_a_signal_reaches_the_script_and_the_command_ends_like_it(tmp_path, number, is_handled):
    (tmp_path / "waits.py").write_text(WAITS)
    words = ("--apply-advice", *PYTHON, "waits.py", *([int(number)] if is_handled else []))
    code, err = interrupted(tmp_path, *words, after="ready\n", by=number)
    assert code == (5 if is_handled else -number)
    assert "headrace: Tried no change, because the script was interrupted.\n" in err


STARTS_AGAIN = """
import sys
from pathlib import Path
import torch
from torch.utils.data import DataLoader

if __name__ == "__main__":
    torch.manual_seed(7)
    loader = DataLoader(list(range(40)), 5, shuffle=True, num_workers=1)
    order = [int(n) for _ in range(6) for batch in loader for n in batch]
    print(order, flush=True)
    if "wait" in sys.argv and Path("ran").exists():
        print("waiting", file=sys.stderr, flush=True)
        sys.stdin.read()
    Path("ran").touch()
"""


@pytest.fixture
def twice(tmp_path) -> tuple[object, ...]:
    """Arguments that run a script twice in the folder of the test, with both records."""
    (tmp_path / "train.py").write_text(STARTS_AGAIN)
    return (tmp_path, "--apply-advice", "--out", "out", "--json", "both.json", *PYTHON, "train.py")


@pytest.mark.slow
def test_both_runs_have_the_same_batches(twice, tmp_path) -> None:
    done = profiled(*twice)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1  # of the first run
    assert done.stderr.count(done.stdout) == 1  # of the second
    tried = r"Tried persistent_workers=True at train\.py:10: [0-9.]+ times as fast"
    assert re.search(tried, done.stderr.replace("\n  ", " ")), done.stderr
    sessions = json.loads((tmp_path / "both.json").read_text())
    epochs = {name: loop["loader"]["epochs"] for name, [loop] in sessions.items()}
    assert epochs == {"before": 6, "after": 6}
    assert sessions["after"][0]["loader"]["has_persistent_workers"]
    settings = {name: loop["provenance"]["configuration"] for name, [loop] in sessions.items()}
    assert settings["after"]["tried"] == "persistent_workers=True at train.py:10"
    assert "tried" not in settings["before"]
    for folder in ("out", "out/tried"):
        assert (tmp_path / folder / "report.html").is_file()


@pytest.mark.slow
def test_ctrl_c_ends_the_second_run_and_the_command(twice, tmp_path) -> None:
    code, err = interrupted(*twice, "wait", after="waiting\n", stream="stderr")
    assert code == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    assert "the second run was interrupted." in err.replace("\n  ", " ")
    assert len(json.loads((tmp_path / "both.json").read_text())["before"]) == 1


TRAIN_OF_RANKS = """
import hashlib, os, sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

def work(ms):
    end = time.thread_time() + ms / 1e3
    while time.thread_time() < end:
        hashlib.sha256(bytes(4096)).digest()

class Numbers(Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, index):
        work(float(sys.argv[1]) if dist.get_rank() == 1 else 0.1)
        return torch.ones(8)

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 1))
for batch in DataLoader(Numbers(), 2):
    model(batch).sum().backward()
    if dist.get_rank() == 1:
        work(float(sys.argv[2]))
os.write(1, f"rank {dist.get_rank()} ended\\n".encode())  # in one piece
dist.destroy_process_group()
if len(sys.argv) > 3:
    sys.exit(int(sys.argv[3]))
"""
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
LAUNCHES = {
    **dict.fromkeys(("python train.py", "python -m train"), None),
    "torchrun --nproc-per-node 2 | train.py --lr 1": ("file", "train.py", ("--lr", "1")),
    "python3 -m torch.distributed.run --standalone | --mod a.b -m": ("module", "a.b", ("-m",)),
}
"""Command, with | after the arguments of torchrun -> expected rest of the launch."""


@pytest.mark.parametrize("line", LAUNCHES)
def test_a_launch_is_parsed_like_torchrun_does(line, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    launcher, rest = line.partition(" | ")[0].split(), LAUNCHES[line]
    expected = None if rest is None else Launch(tuple(launcher), *rest)
    assert find_launch(line.replace(" |", "").split()) == expected


def test_invalid_options_of_torchrun_are_an_error() -> None:
    with pytest.raises(ConfigError, match="torchrun cannot parse '--nproc-per-node'"):
        find_launch(["torchrun", "--nproc-per-node"])


@pytest.fixture
def profile_ranks(tmp_path):
    """Return a function: arguments of the script -> result of its profile on two ranks."""
    (tmp_path / "train.py").write_text(TRAIN_OF_RANKS, encoding="utf-8")
    words = ("--json", "ranks.json", "--out", "report", "--", *TORCHRUN, "train.py")
    return lambda *arguments: profiled(tmp_path, *words, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fetch_ms", "own_ms", "late"),
    [
        (15, 0, "Rank 1 is late because of its data"),
        (0.1, 40, "Rank 1 is late because of its own code"),
    ],
    ids=["data", "compute"],
)
def test_the_late_rank_is_named_with_its_cause(
    profile_ranks, tmp_path, fetch_ms, own_ms, late
) -> None:
    done = profile_ranks(fetch_ms, own_ms)
    assert done.returncode == 0, done.stderr
    assert {"rank 0 ended", "rank 1 ended"} <= {*done.stdout.splitlines()}
    assert late in done.stderr
    record = json.loads((tmp_path / "ranks.json").read_bytes())
    assert {*record["ranks"]} == {"0", "1"}
    typed = ["headrace", "profile", "--json", "ranks.json", "--out", "report", "--", *TORCHRUN]
    for rank in record["ranks"].values():
        command = rank["provenance"]["command"]
        assert command == [*typed, "train.py", str(fetch_ms), str(own_ms)]
    assert late in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_launcher_and_the_ranks_are_reported(profile_ranks) -> None:
    done = profile_ranks(0.1, 0, 3)
    assert done.returncode == 1
    assert "frames" not in done.stdout
    assert "rank  steps" in done.stderr
