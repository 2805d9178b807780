"""A program that is fed with messages and answers each with a line."""

from pathlib import Path

import pytest

from headrace.runtime.fed_process import FedProcess
from runtime.in_time import in_time

PROGRAM = """
import sys

print("ready", sys.argv[1], flush=True)
while head := sys.stdin.buffer.read(4):
    message = sys.stdin.buffer.read(int.from_bytes(head, "big"))
    if message == b"end":
        break
    print(len(message), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch) -> str:
    (tmp_path / "measuring.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "measuring"


def test_each_message_is_answered_until_the_program_ends(program):
    def run_it():
        fed = FedProcess(program, "yes")
        answers = [fed.answer(), fed.ask(b"four"), fed.ask(b"x" * 1_000_000)]
        answers += [fed.ask(b"end"), fed.ask(b"more")]
        fed.close()
        fed.close()
        return [*answers, fed.ask(b"more")]

    assert in_time(run_it) == ["ready yes", "4", "1000000", None, None, None]


def test_a_program_that_is_not_there_gives_no_answer():
    fed = FedProcess("no_such_module")
    assert in_time(fed.answer) is None
    fed.close()
