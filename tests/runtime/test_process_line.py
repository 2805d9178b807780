"""Stages in processes: in order, without copies too many, and none is left, whatever happens."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from headrace.errors import ConfigError, DecodeError, StageError
from headrace.runtime.process_line import ProcessLine
from headrace.runtime.process_stage import ProcessStage
from runtime import line_stages
from runtime.in_time import TIMEOUT_SECONDS, in_time

SOURCE = ProcessStage(name="decode", make=line_stages.counting)


def line(*stages, slots=3):
    return ProcessLine([SOURCE, *stages], slot_bytes=16, slots=slots)


def stage(function, argument=None, name="work"):
    return ProcessStage(name=name, make=function, argument=argument)


def test_parcels_come_out_in_order_with_their_memory_and_spans():
    stages = [stage(line_stages.doubling, 1), stage(line_stages.doubling, 0, "more")]
    with line(*stages) as processes:
        assert processes.start_seconds > 0
        for _ in range(2):
            out = []
            for each in in_time(lambda: processes.run(9)):
                assert set(each.memory) == {each.value}
                assert [span.stage for span in each.spans] == ["decode", "work", "more"]
                edges = [edge for span in each.spans for edge in (span.start_ns, span.end_ns)]
                assert edges == sorted(edges), "one clock for all processes"
                out.append(each.value)
            assert out == [2 * (2 * k + 1) for k in range(9)]


def test_each_stage_has_a_process_of_its_own():
    with line(stage(line_stages.telling_pid)) as processes:
        [found] = {each.value for each in processes.run(3)}
    assert found != os.getpid()
    assert not psutil.pid_exists(found)


@pytest.mark.parametrize(
    ("stages", "kind", "said"),
    [
        ([stage(line_stages.failing, "media")], DecodeError, "^frame 2 is damaged$"),
        ([stage(line_stages.failing)], StageError, "stage 'work' failed: ValueError: no 2"),
        ([stage(line_stages.dying)], StageError, "process of stage 'work' ended by signal 9"),
        ([stage(line_stages.exiting, 0)], StageError, "stage 'work' ended with exit code 0"),
        ([stage(line_stages.unmakable)], StageError, "stage 'work' failed: ValueError: no model"),
    ],
)
def test_what_a_process_fails_with_is_raised_here_and_ends_all(stages, kind, said):
    def run():
        with line(*stages, stage(line_stages.doubling, 0, "after")) as processes:
            list(processes.run(9))

    with pytest.raises(kind, match=said):
        in_time(run)


def test_a_line_that_is_left_in_the_middle_ends_its_processes():
    with line(stage(line_stages.telling_pid)) as processes:
        pid = next(processes.run(100)).value
    assert not psutil.pid_exists(pid)


PARENT = """
from runtime.test_process_line import line, line_stages, stage
if __name__ == '__main__':
    with line(stage(line_stages.telling_pid)) as processes:
        print(next(processes.run(9)).value, flush=True)
        input()
"""


def parent_at_work():
    """Return a process that runs a line, and the process of one of its stages."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
        start_new_session=True,
    )
    return parent, psutil.Process(int(parent.stdout.readline()))


def test_processes_end_when_their_parent_is_killed():
    parent, child = parent_at_work()
    with parent:
        parent.send_signal(signal.SIGKILL)
    assert psutil.wait_procs([child], timeout=TIMEOUT_SECONDS)[1] == []


def test_an_interrupt_is_the_parents_alone_to_act_on():
    parent, child = parent_at_work()
    with parent:
        os.killpg(parent.pid, signal.SIGINT)  # as Ctrl-C does, to all of them
        _, err = parent.communicate(timeout=TIMEOUT_SECONDS)
    assert err.count("Traceback") == 1
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert psutil.wait_procs([child], timeout=TIMEOUT_SECONDS)[1] == []


def test_a_line_without_stages_or_room_is_refused():
    with pytest.raises(ConfigError, match="needs stages, and slots"):
        ProcessLine([], slot_bytes=1, slots=1)
    with pytest.raises(ConfigError, match="1 stages, 0, 16 and 2"):
        line(slots=0)
