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
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from cli import kit
from extraction import ray_run
from headrace.runtime.posix import file_lock
from headrace.testing.synth import SynthClip, write_clip

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

TIMEOUT_SECONDS = 300
"""Far above what a run takes; reached only by a hang."""


class Machines:
    """A cluster that can be told what to do."""

    def __init__(self, folder: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("ray_cluster.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # A short one, as the path of a socket has at most 107 bytes.
            env=_environment() | {"RAY_TMPDIR": folder},
            text=True,
        )
        self.address = self._answer()

    def tell(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        self._answer()

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> str:
        for line in self._process.stdout:
            if line.startswith("is "):
                return line.split()[1]
        raise AssertionError("the cluster ended")


@pytest.fixture(scope="module")
def machines():
    folder = tempfile.mkdtemp(prefix="hr", dir="/tmp")
    cluster = Machines(folder)
    yield cluster
    cluster.close()
    shutil.rmtree(folder)


@pytest.fixture
def gate(tmp_path):
    with closing(Gate(tmp_path)) as gate:
        yield gate


def chunks(number, faults=None):
    faults = faults or {}
    return {
        f"c{n:02d}": {"number": n} | ({"fault": faults[n]} if n in faults else {})
        for n in range(number)
    }


@contextmanager
def begun(address, folder, todo, stall_seconds=30.0):
    asked = {"address": address, "folder": str(folder), "chunks": todo}
    process = subprocess.Popen(
        [sys.executable, ray_run.__file__, json.dumps({**asked, "stall_seconds": stall_seconds})],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def result(process):
    output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, errors
    return json.loads(output)


def ran(*given, **more):
    with begun(*given, **more) as process:
        return result(process)


def squares(folder):
    """Return the results; the unfinished file of a process that was killed is not one."""
    files = [path for path in folder.iterdir() if path.is_file()]
    return {path.name: int(path.read_text()) for path in files if path.suffix != ".partial"}


def all_of(number, without=()):
    return {f"c{n:02d}": n * n for n in range(number) if n not in without}


def test_poison_is_left_out_with_its_reason_and_all_else_is_done_once(machines, tmp_path):
    out = tmp_path / "out"
    faults = {3: "crash", 6: "hang", 9: "actor"}
    came = ran(machines.address, out, chunks(24, faults), stall_seconds=1.0)
    assert came["fallen"] == {
        "c03": "working on it crashed: the process ended by signal 11",
        "c06": "working on it hung: no message for 1 s",
        "c09": "working on it failed: its worker was lost, with its machine or because memory ran "
        "out there",
    }
    assert squares(out) == all_of(24, without=faults)
    assert set(Counter(came["done"]).values()) == {1}
    assert came["hears_sigterm"]  # which Ray takes for itself: nothing done would be kept
    # What a worker has loaded stays for its next call.
    assert len({said["process"] for said in came["said"]}) < len(came["said"])


def test_a_machine_that_is_lost_costs_no_chunk_and_none_is_done_twice(machines, gate, tmp_path):
    out = tmp_path / "out"
    todo = chunks(24, dict.fromkeys(range(24), "gate"))
    with begun(machines.address, out, todo) as process:
        gate.wait_for(3)
        machines.tell("2")
        gate.open()
        came = result(process)
    machines.tell("add")
    assert came["fallen"] == {}
    assert len({said["worker"] for said in came["said"]}) > 1
    assert squares(out) == all_of(24)
    assert sorted(came["done"]) == sorted(todo)


def test_a_run_that_is_killed_goes_on_where_it_was(machines, gate, tmp_path):
    out = tmp_path / "out"
    todo = chunks(24, dict.fromkeys(range(9, 24), "gate"))
    with begun(machines.address, out, todo) as process:
        gate.wait_for(1)
        process.kill()
        process.communicate()
    before = squares(out)
    assert 0 < len(before) < 24
    gate.open()
    came = ran(machines.address, out, todo)
    assert set(before) <= set(came["were_done"])
    assert sorted(came["were_done"] + came["done"]) == sorted(todo)
    assert squares(out) == all_of(24)


def test_ctrl_c_ends_it_and_keeps_what_is_done(machines, gate, tmp_path):
    out = tmp_path / "out"
    todo = chunks(24, dict.fromkeys(range(9, 24), "gate"))
    with begun(machines.address, out, todo) as process:
        gate.wait_for(1)
        process.send_signal(signal.SIGINT)
        came = result(process)
    gate.open()
    assert (came["is_interrupted"], came["fallen"]) == (True, {})
    assert set(came["done"]) < set(todo)
    assert set(came["done"]) <= set(squares(out))


def test_features_of_a_cluster_are_those_of_one_process(machines, tmp_path):
    """Equal but for rounding, as batches are filled by other chunks; all else is the same."""
    clips = [
        write_clip(tmp_path / f"clip{number}", SynthClip(num_frames=30 + number, gop=10))
        for number in range(4)
    ]
    here, there = (features(clips, tmp_path / name) for name in ("here", "there"))
    assert here() == (0, "")
    assert there("--ray", machines.address, "--workers", "1") == (0, "")
    one, other = (table(tmp_path / name) for name in ("here", "there"))
    assert [row["n"] for row in one] == [10, 11, 11, 11]
    for a, b in zip(one, other, strict=True):
        assert np.allclose(a.pop("features"), b.pop("features"), rtol=1e-6, atol=0)
        varies = {"worker", *(name for name in a if name.endswith("_ms"))}
        assert [(k, v) for k, v in a.items() if k not in varies] == [
            (k, v) for k, v in b.items() if k not in varies
        ]
    assert {row["worker"].split()[0] for row in other} == {platform.node()}


def test_a_cluster_that_is_not_there_is_one_line(tmp_path):
    came = ran("127.0.0.1:1", tmp_path / "out", chunks(1))
    said = "ConfigError: --ray 127.0.0.1:1: no head of a Ray cluster answers"
    assert came["error"].startswith(said)


def features(clips, out):
    """Return what runs the command on clips; it gives exit code and errors."""
    command = ("-m", "headrace", "extract", "features", *clips, "-o", out, "--quiet")
    model = ("--model", "extraction.ray_functions:Means", "--every", "3", "--cache", "none")
    environment = _environment() | {"XDG_CACHE_HOME": str(out.parent / "cache")}

    def run(*more):
        done = kit.ran(*command, *model, *(more or ("--workers", "1")), env=environment)
        return done.returncode, done.stderr

    return run


def table(out):
    found = pyarrow.parquet.read_table(sorted(out.glob("*.parquet"))).to_pylist()
    return sorted(found, key=lambda row: row["chunk_id"])


class Gate:
    """Where workers wait until it is opened."""

    def __init__(self, folder) -> None:
        os.mkfifo(folder / "bell")
        self._bell = os.open(folder / "bell", os.O_RDWR)
        self._kept = ExitStack()
        self._kept.callback(os.close, self._bell)
        self._lock = self._kept.enter_context(ExitStack())
        self._lock.enter_context(file_lock(folder / "gate"))

    def wait_for(self, workers: int) -> None:
        for _ in range(workers):
            assert select.select([self._bell], [], [], TIMEOUT_SECONDS)[0], "nobody came"
            os.read(self._bell, 1)

    def open(self) -> None:
        self._lock.close()

    def close(self) -> None:
        self._kept.close()


def _environment():
    """Ours, with what the tests import, and without Ray's accounts, each a process more."""
    path = os.pathsep.join(filter(None, sys.path))
    return os.environ | {"PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
