"""Chunks run by a cluster of three nodes: each once, whatever fails.

The cluster is real, with all nodes on this machine. The tests share it, and leave it complete.
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
"""Far above the time of a run; reached only by a hang."""


class ClusterProcess:
    """Cluster in a child process: see `ray_cluster.py`."""

    def __init__(self, folder: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("ray_cluster.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # A short path: socket paths have at most 107 bytes.
            env=_environment() | {"RAY_TMPDIR": folder},
            text=True,
        )
        self.address = self._read_address()

    def send(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        self._read_address()

    def close(self) -> None:
        self._process.communicate()

    def _read_address(self) -> str:
        for line in self._process.stdout:
            if line.startswith("is "):
                return line.split()[1]
        raise AssertionError("the cluster ended")


@pytest.fixture(scope="module")
def cluster():
    folder = tempfile.mkdtemp(prefix="hr", dir="/tmp")
    process = ClusterProcess(folder)
    yield process
    process.close()
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
def started(address, folder, todo, stall_seconds=30.0):
    options = {"address": address, "folder": str(folder), "chunks": todo}
    process = subprocess.Popen(
        [sys.executable, ray_run.__file__, json.dumps({**options, "stall_seconds": stall_seconds})],
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


def run(*arguments, **options):
    with started(*arguments, **options) as process:
        return result(process)


def squares(folder):
    """Return the results, without partial files of killed processes."""
    files = [path for path in folder.iterdir() if path.is_file()]
    return {path.name: int(path.read_text()) for path in files if path.suffix != ".partial"}


def expected(number, without=()):
    return {f"c{n:02d}": n * n for n in range(number) if n not in without}


def test_poisoned_chunks_are_skipped_with_a_reason_and_the_others_run_once(cluster, tmp_path):
    out = tmp_path / "out"
    faults = {3: "crash", 6: "hang", 9: "actor"}
    outcome = run(cluster.address, out, chunks(24, faults), stall_seconds=1.0)
    assert outcome["poisoned"] == {
        "c03": "working on it crashed: the process ended by signal 11",
        "c06": "working on it hung: no message for 1 s",
        "c09": "working on it failed: its worker was lost: its machine failed or ran out of memory",
    }
    assert squares(out) == expected(24, without=faults)
    assert set(Counter(outcome["done"]).values()) == {1}
    assert outcome["handles_sigterm"]  # Ray replaces the handler; finished work would be lost
    # A child process is reused for the next call.
    processes = [message["process"] for message in outcome["messages"]]
    assert len(set(processes)) < len(processes)


def test_the_loss_of_a_node_loses_and_repeats_no_chunk(cluster, gate, tmp_path):
    out = tmp_path / "out"
    todo = chunks(24, dict.fromkeys(range(24), "gate"))
    with started(cluster.address, out, todo) as process:
        gate.wait_for(3)
        cluster.send("2")
        gate.open()
        outcome = result(process)
    cluster.send("add")
    assert outcome["poisoned"] == {}
    assert len({message["worker"] for message in outcome["messages"]}) > 1
    assert squares(out) == expected(24)
    assert sorted(outcome["done"]) == sorted(todo)


def test_a_killed_run_is_resumed(cluster, gate, tmp_path):
    out = tmp_path / "out"
    todo = chunks(24, dict.fromkeys(range(9, 24), "gate"))
    with started(cluster.address, out, todo) as process:
        gate.wait_for(1)
        process.kill()
        process.communicate()
    before = squares(out)
    assert 0 < len(before) < 24
    gate.open()
    outcome = run(cluster.address, out, todo)
    assert set(before) <= set(outcome["were_done"])
    assert sorted(outcome["were_done"] + outcome["done"]) == sorted(todo)
    assert squares(out) == expected(24)


def test_ctrl_c_ends_a_run_and_keeps_finished_chunks(cluster, gate, tmp_path):
    out = tmp_path / "out"
    todo = chunks(24, dict.fromkeys(range(9, 24), "gate"))
    with started(cluster.address, out, todo) as process:
        gate.wait_for(1)
        process.send_signal(signal.SIGINT)
        outcome = result(process)
    gate.open()
    assert (outcome["is_interrupted"], outcome["poisoned"]) == (True, {})
    assert set(outcome["done"]) < set(todo)
    assert set(outcome["done"]) <= set(squares(out))


def test_features_of_a_cluster_equal_those_of_one_process(cluster, tmp_path):
    """Except for rounding: batches have other sizes."""
    clips = [
        write_clip(tmp_path / f"clip{number}", SynthClip(num_frames=30 + number, gop=10))
        for number in range(4)
    ]
    assert extract_features(clips, tmp_path / "local", "--workers", "1") == (0, "")
    on_ray = ("--ray", cluster.address, "--workers", "1")
    assert extract_features(clips, tmp_path / "ray", *on_ray) == (0, "")
    local, ray = (table(tmp_path / name) for name in ("local", "ray"))
    assert [row["n"] for row in local] == [10, 11, 11, 11]
    for a, b in zip(local, ray, strict=True):
        assert np.allclose(a.pop("features"), b.pop("features"), rtol=1e-6, atol=0)
        varies = {"worker", *(name for name in a if name.endswith("_ms"))}
        assert [(k, v) for k, v in a.items() if k not in varies] == [
            (k, v) for k, v in b.items() if k not in varies
        ]
    assert {row["worker"].split()[0] for row in ray} == {platform.node()}


def test_a_missing_cluster_is_an_error_of_one_line(tmp_path):
    outcome = run("127.0.0.1:1", tmp_path / "out", chunks(1))
    message = "ConfigError: --ray 127.0.0.1:1: no head of a Ray cluster answers"
    assert outcome["error"].startswith(message)


def extract_features(clips, out, *options):
    """Run the command on clips; return its exit code and errors."""
    command = ("-m", "headrace", "extract", "features", *clips, "-o", out, "--quiet")
    model = ("--model", "extraction.ray_functions:Means", "--every", "3", "--cache", "none")
    environment = _environment() | {"XDG_CACHE_HOME": str(out.parent / "cache")}
    done = kit.ran(*command, *model, *options, env=environment)
    return done.returncode, done.stderr


def table(out):
    rows = pyarrow.parquet.read_table(sorted(out.glob("*.parquet"))).to_pylist()
    return sorted(rows, key=lambda row: row["chunk_id"])


class Gate:
    """Gate at which workers wait until it is opened."""

    def __init__(self, folder) -> None:
        os.mkfifo(folder / "bell")
        self._bell = os.open(folder / "bell", os.O_RDWR)
        self._kept = ExitStack()
        self._kept.callback(os.close, self._bell)
        self._lock = self._kept.enter_context(ExitStack())
        self._lock.enter_context(file_lock(folder / "gate"))

    def wait_for(self, workers: int) -> None:
        for _ in range(workers):
            assert select.select([self._bell], [], [], TIMEOUT_SECONDS)[0], "no worker came"
            os.read(self._bell, 1)

    def open(self) -> None:
        self._lock.close()

    def close(self) -> None:
        self._kept.close()


def _environment():
    """Return our environment with the import path of the tests, without Ray's usage statistics."""
    path = os.pathsep.join(filter(None, sys.path))
    return os.environ | {"PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
