"""Children end with their own results; none is left after any error."""

import os
import signal
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from headrace.runtime import supervisor as children
from headrace.runtime.child_process import ChildProcess, CommandSpec, FunctionSpec
from headrace.runtime.supervisor import LineRpcProcess, PersistentChild, run_children
from headrace.runtime.worker_pool import PoolTask, claim_chunk, has_stalled, run_chunks
from headrace.testing.fake_clock import FakeClock
from runtime import child_functions as does


def python(name, script, **options):
    return CommandSpec(name=name, arguments=(sys.executable, "-c", script), **options)


def call(name, function, argument=None, **options):
    return FunctionSpec(name=name, function=function, argument=argument, **options)


def ran(*children, **options):
    return run_children(children, **options)


def interrupt(*_):
    raise KeyboardInterrupt


def test_functions_run_in_processes_with_results_and_messages():
    heard = []
    two, three = call("two", does.squared, 2), call("three", does.squared, 3)
    endings = ran(two, three, on_message=lambda *said: heard.append(said))
    found = [(ending.name, ending.result, ending.has_succeeded) for ending in endings]
    assert found == [("two", 4, True), ("three", 9, True)]
    assert len({os.getpid(), *[ending.messages[0]["pid"] for ending in endings]}) == 3
    assert sorted(heard) == sorted((each.name, said) for each in endings for said in each.messages)


def test_a_failed_child_does_not_end_others():
    told = []
    endings = ran(
        call("raises", does.failing, 7),
        call("dies", does.dying, 3),
        call("is silent", does.dying, 0),
        call("gives a set", does.giving_a_set),
        python("program", "import sys; print('out', flush=True); sys.exit('no disk')"),
        python("killed", "import os; os.kill(os.getpid(), 9)"),
        CommandSpec(name="missing", arguments=("/no/such/program",)),
        call("good", does.squared, 5),
        on_end=told.append,
    )
    assert sorted(map(id, told)) == sorted(map(id, endings))
    *bad, good = endings
    assert (good.has_succeeded, good.exit_code, good.result) == (True, 0, 25)
    assert not any(ending.has_succeeded for ending in bad)
    assert [(ending.exit_code, ending.describe()) for ending in bad] == [
        (1, "raises failed: ValueError: no 7"),
        (3, "dies ended with exit code 3"),
        (0, "is silent failed: it ended without a result"),
        (1, "gives a set failed: TypeError: Object of type set is not JSON serializable"),
        (1, "program ended with exit code 1: no disk"),
        (-9, "killed ended by signal 9"),
        (None, "missing failed: it cannot be started: No such file or directory"),
    ]
    assert bad[0].tail.startswith("about to fail\nTraceback")
    assert bad[4].tail == "out\nno disk\n"
    assert replace(good, name="a", seconds=1.0).describe() == "a succeeded after 1.0 s"


def test_only_the_tail_of_long_output_is_kept():
    (ending,) = ran(python("loud", "print('x' * 1_000_000); print('last')"))
    assert len(ending.tail) == 8192
    assert ending.tail.endswith("x\nlast\n")


@pytest.mark.parametrize(("function", "code"), [(does.endless, -15), (does.stubborn, -9)])
def test_a_child_is_stopped_at_its_time_limit(function, code):
    clock = FakeClock()
    late = call("late", function, timeout_seconds=60)
    good = call("good", does.squared, 2, timeout_seconds=600)

    def on_message(name, message):
        if message == "begun":
            clock.advance(61)

    late, good = ran(late, good, on_message=on_message, grace_seconds=0.0, clock=clock)
    assert (late.has_timed_out, late.has_succeeded) == (True, False)
    assert late.exit_code in (code, -9)
    assert late.describe() == "late was stopped: it did not finish within 61.0 s"
    assert (good.result, good.has_succeeded) == (4, True)


def test_children_at_a_time_are_limited():
    log = []
    ran(
        *(call(str(n), does.squared, n) for n in range(3)),
        max_running=1,
        on_message=lambda name, message: log.append(f"{name} runs"),
        on_end=lambda ending: log.append(f"{ending.name} ended"),
    )
    assert log == [f"{n} {what}" for n in range(3) for what in ("runs", "ended")]


def test_a_child_of_a_child_does_not_outlive_it(tmp_path):
    fifo = tmp_path / "open-in-the-child"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        (ending,) = ran(call("parent", does.leaving_a_child, str(fifo)))
        assert ending.result == "done"
        os.set_blocking(reading, True)
        assert os.read(reading, 1) == b""  # no process has it open any more
    finally:
        os.close(reading)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, None])
def test_an_interrupt_ends_all_children(error):
    """An exception of the callback, or Ctrl-C."""
    before = set(psutil.Process().children())
    begun = []

    def on_message(name, message):
        begun.append(set(psutil.Process().children()) - before)
        if error is None:
            signal.raise_signal(signal.SIGINT)
        raise error

    with pytest.raises(error or KeyboardInterrupt):
        ran(*(call(str(n), does.endless) for n in range(2)), on_message=on_message)
    assert len(begun[0]) == 2
    assert not any(child.is_running() for child in begun[0])


def test_ctrl_c_during_the_start_of_a_child_ends_it(monkeypatch):
    begun = []

    class Interrupted(ChildProcess):
        def __init__(self, *given):
            super().__init__(*given)
            begun.append(psutil.Process(self._process.pid))
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(children, "ChildProcess", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_children([call(str(n), does.endless) for n in range(2)])
    assert not any(child.is_running() for child in begun)
    assert len(begun) == 1


def test_a_program_runs_with_its_environment():
    script = "import os; print(os.environ['COLOUR'])"
    (ending,) = ran(python("here", script, environment={"COLOUR": "blue"}))
    assert ending.tail == "blue\n"


def test_a_handled_interrupt_stops_all_and_returns_results():
    log = []

    def on_message(name, message):
        if not log:
            raise KeyboardInterrupt

    endings = ran(
        *(call(str(n), does.endless) for n in range(3)),
        max_running=2,
        on_message=on_message,
        on_interrupt=lambda: log.append("interrupted"),
        on_end=lambda ending: log.append(ending.name),
    )
    assert log[0] == "interrupted"
    assert sorted(log[1:]) == ["0", "1", "2"]
    assert [ending.exit_code for ending in endings[:2]] == [-15, -15]
    assert not any(ending.has_timed_out for ending in endings)
    assert endings[2].describe() == "2 failed: it was not started"


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace():
    grace = {"on_interrupt": lambda: None, "grace_seconds": 0.0}
    (ending,) = ran(call("a", does.stubborn), on_message=interrupt, **grace)
    assert ending.exit_code == -9


def test_a_second_interrupt_ends_all_at_once():
    before = set(psutil.Process().children())
    heard = {"on_message": interrupt, "on_interrupt": lambda: None, "on_end": interrupt}
    with pytest.raises(KeyboardInterrupt):
        ran(call("a", does.endless), **heard)
    assert set(psutil.Process().children()) == before


def test_on_look_is_called_while_children_run():
    assert ran() == []
    looks = []
    ran(call("a", does.squared, 2), on_look=lambda: looks.append(1))
    assert looks


@pytest.mark.parametrize(("function", "stalls"), [(does.stalling, True), (does.resting, False)])
def test_a_hanging_child_is_ended_and_an_idle_one_is_not(function, stalls):
    [ending] = ran(call("worker", function, 0.2))
    assert (ending.exit_code, has_stalled(ending.tail)) == (int(stalls), stalls)
    assert ("in stalling" in ending.tail, ending.has_succeeded) == (stalls, not stalls)


def fed(heard):
    adding = call("adding", does.adding, 100)
    return closing(PersistentChild(adding, lambda name, message: heard.append(message)))


def test_the_state_of_a_persistent_child_lasts_over_jobs():
    heard = []
    with fed(heard) as child:
        assert [child.run(n) for n in (1, 2, 3)] == [None] * 3
    assert heard == [101, 103, 106]


def test_a_dead_persistent_child_returns_its_result_each_time():
    with fed([]) as child:
        assert child.run(1) is None
        assert child.run(-1).exit_code == -11
        assert child.run(1).exit_code == -11


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


def test_each_request_returns_a_line_until_the_process_ends(program):
    fed = LineRpcProcess(program, "yes")
    answers = [fed.read_line(), fed.request(b"four"), fed.request(b"x" * 1_000_000)]
    answers += [fed.request(b"end"), fed.request(b"more")]
    fed.close()
    fed.close()
    assert [*answers, fed.request(b"more")] == ["ready yes", "4", "1000000", None, None, None]


def test_a_missing_module_returns_no_line():
    fed = LineRpcProcess("no_such_module")
    assert fed.read_line() is None
    fed.close()


TOLD = {"a": "good", "b": "bad", "c": "good"}


CRASHED = "crashed: the process ended by signal"
KILLED = "it was killed, perhaps for lack of memory: the process ended by signal 9"
ABORTS = {"signal": signal.SIGABRT, "reads": ["good", "bad"]}
SINGLY = {"one_by_one": True}
READS_TWO = {"signal": signal.SIGSEGV, "reads": ["good"]}


@pytest.mark.parametrize(
    ("plan", "workers", "why", "noted"),
    [
        ({"signal": signal.SIGSEGV}, 2, f"working on it {CRASHED} 11", None),
        (ABORTS, 1, f"the model on it {CRASHED} 6", None),
        (SINGLY, 1, "working on it ran out of memory", None),
        ({"signal": signal.SIGKILL, **SINGLY}, 1, KILLED, None),
        # All together; the decoded ones again, together; the suspect alone.
        (READS_TWO, 1, f"working on it {CRASHED} 11", ["a b c", "a c", "b"]),
    ],
)
def test_the_chunk_that_kills_workers_is_poisoned(tmp_path, plan, workers, why, noted):
    """It is the second of three; decoded chunks are not suspected while another is decoding."""
    claims, notes, done = tmp_path / "claims", tmp_path / "notes", []
    claims.mkdir()
    given = {"notes": str(notes), "plan": plan}
    how = {"claims": claims, "workers": workers, "stall_seconds": 60.0}
    work = PoolTask(function=does.working, argument=given, **how)
    assert run_chunks(work, TOLD, on_done=done.append).poisoned == {"b": why}
    assert sorted(done) == ["a", "c"]
    assert noted in (None, notes.read_text().splitlines())


def test_a_chunk_is_claimed_once(tmp_path):
    assert [claim_chunk(tmp_path, name) for name in ("a", "b", "a")] == [True, True, False]
