"""Processes begin together; one that fails ends them all."""

import multiprocessing
import os
import signal

import pytest

from headrace.errors import StageError
from headrace.runtime.processes import run_together


def squared(number, ready):
    ready()
    return number * number, os.getpid()


def failing(number, ready):
    ready()
    if number:
        raise ValueError(f"no {number}")
    signal.pause()


def dying(number, ready):
    os._exit(number)


def start_method(number, ready):
    ready()
    return multiprocessing.get_start_method()


def test_children_of_these_processes_start_as_is_usual_here():
    """As the workers of ranks that a user begins do."""
    [found], _ = run_together(start_method, [0], timeout_seconds=60)
    assert found == multiprocessing.get_all_start_methods()[0]


def test_each_argument_has_a_process():
    results, seconds = run_together(squared, [2, 3], timeout_seconds=60)
    assert [square for square, _ in results] == [4, 9]
    assert len({os.getpid(), *(pid for _, pid in results)}) == 3
    assert seconds > 0


@pytest.mark.parametrize(
    ("work", "timeout", "said"),
    [
        (dying, 60, "ended without an answer"),
        (failing, 10, "gave no answer for 10 s"),
    ],
)
def test_a_process_that_fails_ends_all(work, timeout, said):
    with pytest.raises(StageError, match=said):
        run_together(work, [0, 1], timeout_seconds=timeout)


def test_what_a_process_raised_is_said():
    with pytest.raises(StageError, match="a process failed: ValueError: no 1"):
        run_together(failing, [1, 0], timeout_seconds=60)


def pressing(folder, ready):
    """The first presses Ctrl-C, which reaches all processes of a terminal; the other waits."""
    try:
        ready()
        if folder.name == "waits":
            signal.pause()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()
    finally:
        (folder / "closed").touch()


def test_ctrl_c_is_heard_by_the_caller_alone_and_ends_all(tmp_path, capfd):
    """They close what they opened, and say nothing."""
    folders = [tmp_path / "presses", tmp_path / "waits"]
    for folder in folders:
        folder.mkdir()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_together(pressing, folders, timeout_seconds=60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert all((folder / "closed").exists() for folder in folders)
    assert capfd.readouterr().err == ""
