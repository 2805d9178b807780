"""Processes begin together; one that fails ends them all."""

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
