"""`headrace profile --apply-advice` runs a script twice; it tells what the advice gained."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.profile_apply import profile_twice
from headrace.cli.signals import ChildEnd
from profiling.loops import Loop, profile_loop

PROFILE = [sys.executable, "-m", "headrace", "profile", "--apply-advice"]
WAITING = Loop(fetch=40, step=20)
AFTER = WAITING.with_(workers=2)
TRYING = "headrace: Trying num_workers=2 at train.py:18: the script runs a second time ...\n"
NOT_KNOWN = "headrace: Tried num_workers=2 at train.py:18: the gain is not known, because the "


class Script:
    """A script whose runs end as planned, each with its loops."""

    def __init__(self, *runs: tuple[ChildEnd, list[Loop] | None]) -> None:
        self._runs = list(runs)
        self.outputs: list[dict[str, object]] = []

    def __call__(self, outputs, stdout) -> ChildEnd:
        assert stdout == (2 if self.outputs else None)  # one run on the standard output
        self.outputs.append(outputs)
        end, loops = self._runs.pop(0)
        if loops is not None:
            sessions = [profile_loop(plan).model_dump(mode="json") for plan in loops]
            outputs["json"].write_text(json.dumps(sessions))
        return end


def ended(code: int = 0, *, is_asked: bool = False) -> ChildEnd:
    return ChildEnd(code=code, is_asked=is_asked)


def test_the_change_is_made_in_a_second_run_and_both_are_kept(tmp_path, capsys) -> None:
    script = Script((ended(), [WAITING]), (ended(), [AFTER]))
    kept = tmp_path / "both.json"
    assert profile_twice(script, tmp_path / "out", kept) == 0
    first, second = script.outputs
    assert (first["out"], second["out"]) == (tmp_path / "out", tmp_path / "out" / "tried")
    assert "change" not in first
    assert second["change"] == {
        "loop": profile_loop(WAITING).provenance.configuration,
        "options": {"num_workers": 2},
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


@pytest.mark.parametrize(
    ("first", "loops", "code", "err"),
    [
        (ended(3), [WAITING], 3, "the script ended with exit code 3.\n"),
        (ended(-9), None, -9, "the script was ended by signal 9.\n"),
        (ended(-2, is_asked=True), [WAITING], -2, "the script was interrupted.\n"),
        (ended(is_asked=True), [WAITING], 0, "the script was interrupted.\n"),
    ],
    ids=["failed", "killed", "interrupted", "interrupted, and ended well"],
)
def test_after_a_run_that_did_not_end_well_nothing_is_tried(
    first, loops, code, err, tmp_path, capsys
) -> None:
    kept = tmp_path / "both.json"
    assert profile_twice(Script((first, loops)), None, kept) == code
    assert capsys.readouterr().err == f"headrace: Tried no change, because {err}"
    sessions = json.loads(kept.read_text())
    assert (len(sessions["before"]), sessions["after"]) == (len(loops or []), [])


@pytest.mark.parametrize("loops", [None, [], [WAITING.with_(steps=5)]])
def test_without_a_change_to_try_the_script_runs_once(loops, capsys) -> None:
    script = Script((ended(), loops))
    assert profile_twice(script, None, None) == 0
    assert capsys.readouterr().err.startswith("headrace: Nothing to try")


@pytest.mark.parametrize(
    ("second", "code", "reason"),
    [
        (ended(1), 0, "second run ended with exit code 1."),
        (ended(-11), 0, "second run was ended by signal 11."),
        (ended(-2, is_asked=True), -2, "second run was interrupted."),
    ],
    ids=["failed", "crashed", "interrupted"],
)
def test_a_second_run_that_fails_is_told_and_what_the_first_found_is_kept(
    second, code, reason, tmp_path, capsys
) -> None:
    kept = tmp_path / "both.json"
    script = Script((ended(), [WAITING]), (second, None))
    assert profile_twice(script, None, kept) == code
    err = capsys.readouterr().err.replace("\n  ", " ")
    assert err == f"{TRYING}{NOT_KNOWN}{reason}\n"
    sessions = json.loads(kept.read_text())
    assert (len(sessions["before"]), sessions["after"]) == (1, [])


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
def script(tmp_path) -> Path:
    (tmp_path / "train.py").write_text(STARTS_AGAIN)
    return tmp_path


WAITS = """
import signal
import sys

if sys.argv[1:]:
    signal.signal(int(sys.argv[1]), lambda number, frame: sys.exit(5))
print("ready", flush=True)
sys.stdin.read()
"""


def start(folder: Path, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROFILE, *map(str, words)],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal whose Ctrl-C reaches script and command
    )


def end_of(child: subprocess.Popen[str]) -> str:
    """Wait for the end of a child; return its errors."""
    assert child.stderr is not None
    err = child.stderr.read()  # before the end of its input, which would end it, too
    child.communicate()
    return err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_handled", [False, True])
def test_a_signal_reaches_the_script_and_its_end_is_that_of_the_command(
    tmp_path, number, is_handled
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    words = [int(number)] if is_handled else []
    child = start(tmp_path, "--", sys.executable, "waits.py", *words)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    os.kill(child.pid, number)
    err = end_of(child)
    assert child.returncode == (5 if is_handled else -number)
    assert "headrace: Tried no change, because the script was interrupted.\n" in err


@pytest.mark.slow
def test_a_script_gets_the_same_batches_in_both_runs(script) -> None:
    command = [*PROFILE, "--out", "out", "--json", "both.json", "--", sys.executable, "train.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1  # of the first run
    assert done.stderr.count(done.stdout) == 1  # of the second
    tried = r"Tried persistent_workers=True at train\.py:10: [0-9.]+ times as fast"
    assert re.search(tried, done.stderr.replace("\n  ", " ")), done.stderr
    sessions = json.loads((script / "both.json").read_text())
    epochs = {name: loop["loader"]["epochs"] for name, [loop] in sessions.items()}
    assert epochs == {"before": 6, "after": 6}
    assert sessions["after"][0]["loader"]["has_persistent_workers"]
    for folder in ("out", "out/tried"):
        assert (script / folder / "report.html").is_file()


@pytest.mark.slow
def test_ctrl_c_ends_the_second_run_and_the_command(script) -> None:
    child = start(script, "--json", "both.json", "--", sys.executable, "train.py", "wait")
    assert child.stderr is not None
    while child.stderr.readline() not in ("waiting\n", ""):
        pass
    os.kill(child.pid, signal.SIGINT)
    err = end_of(child)
    assert child.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    assert "the second run was interrupted." in err.replace("\n  ", " ")
    assert len(json.loads((script / "both.json").read_text())["before"]) == 1
