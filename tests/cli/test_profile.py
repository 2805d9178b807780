"""`headrace profile` leaves a script as it is, and reports at its end what its loops waited for."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.kit import python
from headrace.cli.profile import count_own_arguments

TRAIN = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset
import beside

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
    print(sum(indices))
    if "check" in sys.argv:
        for batch in DataLoader(Numbers(), 4):
            pass
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
PROFILED_INSIDE = """
import sys
import headrace
from torch.utils.data import DataLoader

if __name__ == "__main__":
    numbers = DataLoader(list(range(20)), 5, num_workers=int(sys.argv[1]))
    with headrace.profile_loader(numbers) as loop:
        print([batch.sum().item() for batch in loop])
    print(len(loop.session.steps))
"""
PROFILE = [sys.executable, "-m", "headrace", "profile"]


@pytest.fixture
def script(tmp_path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    return tmp_path / "train.py"


def run(*command: object, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder)


def test_a_script_has_its_own_arguments_output_and_exit_code(script, tmp_path) -> None:
    """In a module that starts workers anew, which import it, too."""
    path = tmp_path / "sessions.json"
    done = run(
        *(*PROFILE, "--json", path, "--", sys.executable, "-m", "train"),
        *("1", "--debug", "--out", "x"),
        folder=tmp_path,
    )
    assert done.stdout == "['1', '--debug', '--out', 'x'] beside __main__\n1770\n"
    assert done.returncode == 3
    lines = done.stderr.splitlines()
    assert lines[0].startswith("headrace: ")
    (about,) = [line for line in lines if "DataLoader of Numbers" in line]
    assert about.startswith("  DataLoader of Numbers at train.py:18: 30 steps in ")
    assert about.endswith(", failed")  # by its exit code
    (session,) = json.loads(path.read_text())
    assert session["loader"]["workers"] == 1
    assert set(session["steps"]["work_ms"]) == {"fetch", "collate", "step"}


def test_a_script_that_fails_shows_its_own_traceback_and_each_loop_a_report(
    script, tmp_path
) -> None:
    done = run(
        *(*PROFILE, "--out", tmp_path / "report", "--", sys.executable, "train.py", "0"),
        *("check", "fail"),
        folder=tmp_path,
    )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[:2] == [
        "Traceback (most recent call last):",
        '  File "train.py", line 24, in <module>',
    ]
    assert lines.index("ValueError: no more") < lines.index(
        f"headrace: reports are in {tmp_path / 'report'}"
    )
    assert (tmp_path / "report" / "loop_1" / "report.html").is_file()
    assert (tmp_path / "report" / "loop_2" / "session.json").is_file()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loop_that_the_script_profiles_itself_is_reported_twice(tmp_path, workers) -> None:
    (tmp_path / "train.py").write_text(PROFILED_INSIDE)
    done = run(*PROFILE, "--", sys.executable, "train.py", workers, folder=tmp_path)
    assert done.stdout == "[10, 35, 60, 85]\n4\n", done.stderr
    assert done.stderr.count("DataLoader of list") == 2
    assert done.returncode == 0


@pytest.mark.parametrize("flags", [[], ["--apply-advice"]], ids=["once", "twice"])
def test_ctrl_c_ends_a_script_as_python_does_and_its_loops_are_reported(tmp_path, flags) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    child = subprocess.Popen(
        [*PROFILE, *flags, "--", sys.executable, "endless.py"],
        cwd=tmp_path,
        start_new_session=True,  # no terminal whose Ctrl-C reaches script and command
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, signal.SIGINT)
    assert child.stderr is not None
    err = child.stderr.read()  # before the end of its input, which would end it, too
    child.communicate()
    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    assert "20 steps in " in err


def test_a_script_without_a_loader_is_reported_and_loads_no_torch(tmp_path) -> None:
    (tmp_path / "plain.py").write_text("import sys; print('torch' in sys.modules)")
    done = run(*PROFILE, "--", sys.executable, "plain.py", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert done.stderr == (
        "headrace: plain.py took no batch from a DataLoader or a headrace loader, so no loop was "
        "profiled; processes that the script starts are not profiled\n"
    )


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        (["run", "a.mp4", "--debug"], 3),
        (["profile", "--", "python", "x.py", "--debug"], 1),
        (["profile", "--out", "x", "python", "x.py", "--debug"], 3),
        (["profile", "--debug", "--", "python", "x.py"], 2),
        (["profile", "--apply-advice", "python", "x.py", "--debug"], 2),
        ([], 0),
    ],
)
def test_debug_in_a_script_is_the_scripts(arguments, own) -> None:
    assert count_own_arguments(arguments) == own


def test_the_first_batch_waits_for_no_import_of_records_or_loaders() -> None:
    done = python(
        "import sys, torch.utils.data\n"
        "before = {*sys.modules}\n"
        "import headrace.instrumentation.patch_all\n"
        "print(*{*sys.modules} - before)"
    )
    loaded = done.stdout.split()
    heavy = ("pydantic", "av", "headrace.loaders", "headrace.decode", "headrace.report", "plotly")
    assert "headrace.instrumentation.patch_all" in loaded
    assert [name for name in loaded if name.startswith(heavy)] == []
