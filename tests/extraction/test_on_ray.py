"""Chunks done by a cluster of three machines: each once, whatever is lost on the way.

The cluster is real, its machines are on this one. One test after the other has it, and leaves it
whole.
"""

import json
import os
import platform
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet
import pytest

from extraction.extracting import write_clips
from headrace.runtime.lock import file_lock

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

TIMEOUT_SECONDS = 300
"""Far above what a run takes; reached only by a hang."""
PIPED = {"stdout": subprocess.PIPE, "text": True}
RUN = "from extraction import ray_run; ray_run.main()"


def environment(**more):
    """Ours, with what the tests import, and without Ray's accounts, each a process more."""
    path = os.pathsep.join(filter(None, sys.path))
    return os.environ | {"PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"} | more


@pytest.fixture(scope="module")
def machines():
    """The address of a cluster, and a function that tells it what to do."""
    # A short one, as the path of a socket has at most 107 bytes.
    folder = tempfile.mkdtemp(prefix="hr", dir="/tmp")
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("ray_cluster.py")],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(RAY_TMPDIR=folder),
        **PIPED,
    )

    def tell(line=None):
        if line is not None:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
        answers = (answer.split()[1] for answer in process.stdout if answer.startswith("is "))
        return next(answers)

    yield SimpleNamespace(address=tell(), tell=tell)
    process.communicate()
    shutil.rmtree(folder)


@pytest.fixture
def gate(tmp_path):
    """Where workers wait until it is opened."""
    os.mkfifo(tmp_path / "bell")
    bell = os.open(tmp_path / "bell", os.O_RDWR)

    def wait_for(workers):
        for _ in range(workers):
            assert select.select([bell], [], [], TIMEOUT_SECONDS)[0], "nobody came"
            os.read(bell, 1)

    with ExitStack() as lock:
        lock.callback(os.close, bell)
        with ExitStack() as closed:
            closed.enter_context(file_lock(tmp_path / "gate"))
            yield SimpleNamespace(wait_for=wait_for, open=closed.close)


@pytest.fixture
def squares(tmp_path):
    """What is there of the chunks, by their names."""
    out = tmp_path / "out"
    return lambda: {path.name: int(path.read_text()) for path in out.iterdir() if path.is_file()}


@pytest.fixture
def begun(machines, tmp_path):
    """Begin a run of chunks in a process of its own, which ends with the block."""

    @contextmanager
    def begun(todo, *, address=machines.address, stall_seconds=30.0):
        asked = {"address": address, "folder": str(tmp_path / "out"), "chunks": todo}
        asked["stall_seconds"] = stall_seconds
        command = [sys.executable, "-c", RUN, json.dumps(asked)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment(), **PIPED)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    return begun


@pytest.fixture
def ran(begun):
    def ran(*given, **more):
        with begun(*given, **more) as process:
            return result(process)

    return ran


def chunks(number, faults):
    return {
        f"c{n:02d}": {"number": n} | ({"fault": faults[n]} if n in faults else {})
        for n in range(number)
    }


def result(process):
    output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, errors
    return json.loads(output)


def all_but(without):
    return {f"c{n:02d}": n * n for n in range(24) if n not in without}


LATE = chunks(24, dict.fromkeys(range(9, 24), "gate"))


def test_poison_is_left_out_with_its_reason_and_all_else_is_done_once(ran, squares):
    faults = {3: "crash", 6: "hang", 9: "actor"}
    came = ran(chunks(24, faults), stall_seconds=1.0)
    assert came["fallen"] == {
        "c03": "working on it crashed: the process ended by signal 11",
        "c06": "working on it hung: nothing came for 1 s",
        "c09": "working on it failed: its worker was lost, with its machine or because memory ran "
        "out there",
    }
    assert squares() == all_but(faults)
    assert set(Counter(came["done"]).values()) == {1}
    assert came["hears_sigterm"]  # which Ray takes for itself: nothing done would be kept
    # What a worker has loaded stays for its next call.
    assert len({said["process"] for said in came["said"]}) < len(came["said"])


def test_a_machine_that_is_lost_costs_no_chunk_and_none_is_done_twice(
    machines, gate, begun, squares
):
    todo = chunks(24, dict.fromkeys(range(24), "gate"))
    with begun(todo) as process:
        gate.wait_for(3)
        machines.tell("2")
        gate.open()
        came = result(process)
    machines.tell("add")
    assert came["fallen"] == {}
    assert len({said["worker"] for said in came["said"]}) > 1
    assert squares() == all_but([])
    assert sorted(came["done"]) == sorted(todo)


def test_a_run_that_is_killed_goes_on_where_it_was(gate, begun, ran, squares):
    with begun(LATE) as process:
        gate.wait_for(1)
        process.kill()
        process.communicate()
    before = squares()
    assert 0 < len(before) < 24
    gate.open()
    came = ran(LATE)
    assert set(before) <= set(came["were_done"])
    assert sorted(came["were_done"] + came["done"]) == sorted(LATE)
    assert squares() == all_but([])


def test_ctrl_c_ends_it_and_keeps_what_is_done(gate, begun, squares):
    with begun(LATE) as process:
        gate.wait_for(1)
        process.send_signal(signal.SIGINT)
        came = result(process)
    gate.open()
    assert (came["is_interrupted"], came["fallen"]) == (True, {})
    assert set(came["done"]) < set(LATE)
    assert set(came["done"]) <= set(squares())


def test_features_of_a_cluster_are_those_of_one_process(machines, tmp_path):
    """Equal but for rounding, as batches are filled by other chunks; all else is the same."""
    clips = write_clips(tmp_path, range(30, 34), b_frames=0)
    one = table(clips, tmp_path / "here")
    other = table(clips, tmp_path / "there", "--ray", machines.address)
    assert [row["n"] for row in one] == [10, 11, 11, 11]
    for a, b in zip(one, other, strict=True):
        assert np.allclose(a.pop("features"), b.pop("features"), rtol=1e-6, atol=0)
        varies = {"worker", *(name for name in a if name.endswith("_ms"))}
        assert [(k, v) for k, v in a.items() if k not in varies] == [
            (k, v) for k, v in b.items() if k not in varies
        ]
    assert {row["worker"].split()[0] for row in other} == {platform.node()}


def test_a_cluster_that_is_not_there_is_one_line(ran):
    came = ran(chunks(1, {}), address="127.0.0.1:1")
    assert came["error"].startswith(
        "ConfigError: --ray 127.0.0.1:1: no head of a Ray cluster answers"
    )


def table(clips, out, *options):
    """The rows of features of these clips, by the command."""
    command = [sys.executable, "-m", "headrace", "extract", "features", *map(str, clips)]
    model = ["--model", "extraction.ray_run:Means", "--every", "3", "--cache", "none"]
    done = subprocess.run(
        [*command, "-o", str(out), *model, "--workers", "1", *options],
        env=environment(XDG_CACHE_HOME=str(out.parent / "cache")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = pyarrow.parquet.read_table(sorted(out.glob("*.parquet"))).to_pylist()
    return sorted(found, key=lambda row: row["chunk_id"])
