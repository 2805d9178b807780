"""Processes that start together or form a pipeline: order, errors and their end."""

import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from itertools import islice

import psutil
import pytest

from headrace.errors import ConfigError, DecodeError, StageError
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.process_pipeline import ProcessPipeline, ProcessStage
from headrace.runtime.spawned_processes import Participant, Rendezvous, run_ranks
from runtime import child_functions
from runtime.in_time import TIMEOUT_SECONDS, Call
from runtime.parents import PARENTS


def squared(number, ready):
    ready()
    return number * number, os.getpid()


def failing(number, ready):
    ready()
    if number:
        raise ValueError(f"no {number}")
    signal.pause()


def start_method(number, ready):
    ready()
    return multiprocessing.get_start_method()


def test_children_of_ranks_use_the_default_start_method():
    """Like the workers of a user's ranks."""
    [found], _ = run_ranks(start_method, [0], timeout_seconds=60)
    assert found == multiprocessing.get_all_start_methods()[0]


def test_each_argument_has_a_process():
    results, seconds = run_ranks(squared, [2, 3], timeout_seconds=60)
    assert [square for square, _ in results] == [4, 9]
    assert len({os.getpid(), *(pid for _, pid in results)}) == 3
    assert seconds > 0


@pytest.mark.parametrize(
    ("work", "arguments", "timeout", "message"),
    [
        (child_functions.dying, [0, 1], 60, "ended without a result"),
        (failing, [1, 0], 60, "a process failed: ValueError: no 1"),
        pytest.param(failing, [0, 1], 3, "sent no result for 3 s", marks=pytest.mark.slow),
    ],
)
def test_a_failed_rank_ends_all_with_its_error(work, arguments, timeout, message):
    with pytest.raises(StageError, match=message):
        run_ranks(work, arguments, timeout_seconds=timeout)


def pressing(folder, ready):
    """One sends Ctrl-C to itself and the caller, like a terminal; the other waits."""
    try:
        ready()
        if folder.name == "waits":
            signal.pause()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()
    finally:
        (folder / "closed").touch()


def test_only_the_caller_receives_ctrl_c_and_all_ranks_end(tmp_path, capfd):
    """They close their resources and print nothing."""
    folders = [tmp_path / "presses", tmp_path / "waits"]
    for folder in folders:
        folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        run_ranks(pressing, folders, timeout_seconds=60)
    assert all((folder / "closed").exists() for folder in folders)
    assert capfd.readouterr().err == ""


SOURCE = ProcessStage(name="decode", make=child_functions.counting)


def line(*stages, slots=3):
    return ProcessPipeline([SOURCE, *stages], slot_bytes=16, slots=slots)


def stage(function, argument=None, name="work"):
    return ProcessStage(name=name, make=function, argument=argument)


def test_process_items_are_in_order_with_memory_and_spans():
    stages = [stage(child_functions.doubling, 1), stage(child_functions.doubling, 0, "more")]
    with line(*stages) as processes:
        assert processes.start_seconds > 0
        for _ in range(2):
            out = []
            for each, memory in processes.run(9):
                assert set(memory) == {each.value}
                assert [span.stage for span in each.spans] == ["decode", "work", "more"]
                edges = [edge for span in each.spans for edge in (span.start_ns, span.end_ns)]
                assert edges == sorted(edges), "one clock for all processes"
                out.append(each.value)
            assert out == [2 * (2 * k + 1) for k in range(9)]


def test_each_stage_has_its_own_process_that_ends_with_the_pipeline():
    with line(stage(child_functions.telling_pid)) as processes:
        [found] = {each.value for each, _ in islice(processes.run(100), 3)}
    assert found != os.getpid()
    assert not psutil.pid_exists(found)


@pytest.mark.parametrize(
    ("function", "argument", "message"),
    [
        (child_functions.failing_stage, "media", "^frame 2 is damaged$"),
        (child_functions.failing_stage, None, "stage 'work' failed: ValueError: no 2"),
        (child_functions.ending, -9, "process of stage 'work' ended by signal 9"),
        (child_functions.ending, 0, "stage 'work' ended with exit code 0"),
        (child_functions.unmakable, None, "stage 'work' failed: ValueError: no model"),
    ],
)
def test_the_error_of_a_stage_process_is_raised_and_ends_all(function, argument, message):
    after = stage(child_functions.doubling, 0, "after")
    error = DecodeError if argument == "media" else StageError
    with pytest.raises(error, match=message), line(stage(function, argument), after) as processes:
        list(processes.run(9))


@contextmanager
def parent_at_work(kind):
    """Yield a process of `runtime.parents` and its working children."""
    with subprocess.Popen(
        [sys.executable, "-m", "runtime.parents", kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout.readline() == "at work\n"
        yield parent, psutil.Process(parent.pid).children(recursive=True)


@pytest.mark.parametrize("kind", PARENTS)
def test_children_end_with_a_killed_parent(kind):
    with parent_at_work(kind) as (parent, children):
        assert children
        parent.send_signal(signal.SIGKILL)
    assert psutil.wait_procs(children, timeout=TIMEOUT_SECONDS)[1] == []


def test_only_the_parent_receives_an_interrupt():
    with parent_at_work("a line") as (parent, children):
        os.killpg(parent.pid, signal.SIGINT)  # as Ctrl-C does, to all of them
        _, err = parent.communicate(timeout=TIMEOUT_SECONDS)
    assert err.count("Traceback") == 1
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert psutil.wait_procs(children, timeout=TIMEOUT_SECONDS)[1] == []


COMER = """
import sys
from headrace.runtime.spawned_processes import Participant
comer = Participant(sys.argv[1])
comer.send("there")
comer.send(comer.wait())
"""


def heard(place, number):
    """Return what is written, until it has so many words."""
    found = []
    while len(found) < number:
        found += place.receive()
    return found


def test_ready_participants_start_together(tmp_path):
    place = Rendezvous(tmp_path)
    comers = [subprocess.Popen([sys.executable, "-c", COMER, place.address(name)]) for name in "ab"]
    assert sorted(heard(place, 2)) == [("a", "there"), ("b", "there")]
    assert place.receive() == []
    moment_ns = place.open()
    started = dict(heard(place, 2))
    assert set(started) == {"a", "b"}
    assert min(started.values()) >= moment_ns
    assert [comer.wait() for comer in comers] == [0, 0]


def test_an_incomplete_message_is_received_later(tmp_path):
    place = Rendezvous(tmp_path)
    Participant(place.address("a.b")).send({"frames": 3})
    with (tmp_path / "a.b.jsonl").open("a") as file:
        file.write('{"fra')
    assert place.receive() == [("a.b", {"frames": 3})]
    with (tmp_path / "a.b.jsonl").open("a") as file:
        file.write('mes": 4}\n')
    assert place.receive() == [("a.b", {"frames": 4})]


def test_a_late_participant_starts_at_once(tmp_path):
    place = Rendezvous(tmp_path)
    place.open()
    assert Call(Participant(place.address("a")).wait).result() <= SYSTEM_CLOCK.now_ns()


def test_participants_fail_without_their_rendezvous(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    address = Rendezvous(tmp_path).address("a").replace(str(os.getpid()), str(gone.pid))
    with pytest.raises(ConfigError, match="ended before its workers started"):
        Call(Participant(address).wait).result()


def test_a_missing_rendezvous_folder_is_an_error(tmp_path):
    comer = Participant(Rendezvous(tmp_path / "gone").address("a"))
    with pytest.raises(ConfigError, match="cannot report to the launch"):
        comer.send("there")
