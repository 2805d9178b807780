"""The description of the machine, its versions, and CPU time and memory of processes."""

import os
import subprocess
import sys
from types import SimpleNamespace

import av
import psutil
import pytest

from cli.kit import python
from headrace.profiling import machine, resource_usage
from headrace.profiling.machine import describe_machine, versions
from headrace.runtime.processor_affinity import parse_cores

TICK = 0.01
"""Resolution of CPU time in the kernel, in seconds."""
BUSY = "sum(range(3_000_000)); print(flush=True); input()"


def test_the_machine_has_cores_memory_and_ffmpeg():
    described = describe_machine()
    assert described.cpu
    assert 1 <= described.usable_cores <= described.logical_cores
    assert described.memory_bytes > 2**28
    assert described.ffmpeg["libavcodec"].split(".")[0] == str(av.library_versions["libavcodec"][0])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no core binding on this system")
def test_usable_cores_are_those_of_the_affinity():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert describe_machine().usable_cores == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_gpus_are_listed_if_torch_is_loaded(monkeypatch):
    card = SimpleNamespace(name="Card A", total_memory=8 << 30)
    cuda = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 1, get_device_properties=[card].__getitem__
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    (gpu,) = describe_machine().gpus
    assert (gpu.name, gpu.memory_bytes) == ("Card A", 8 << 30)


def test_a_cpu_without_a_name_in_proc_has_a_name(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "_CPU_INFO", tmp_path / "none")
    assert describe_machine().cpu


def test_versions_have_the_numeric_and_video_packages():
    assert {"python", "headrace", "torch", "torchvision", "av", "ffmpeg"} <= set(versions())


def test_machine_and_reports_do_not_load_torch():
    code = (
        "import sys, headrace.report.folder, headrace.report.text\n"
        "from headrace.profiling import machine as m\n"
        "m.describe_machine(), m.versions()\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert python(code).returncode == 0


def test_the_machine_has_its_usable_cores_and_their_governor(monkeypatch, tmp_path):
    for core in range(os.cpu_count() or 1):
        folder = tmp_path / f"cpu{core}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text("performance\n")
    monkeypatch.setattr(machine, "_GOVERNORS", tmp_path)
    described = describe_machine()
    assert described.governor == "performance"
    if described.cores is not None:
        assert len(parse_cores(described.cores)) == described.usable_cores
    assert 0 < described.available_bytes <= described.memory_bytes
    monkeypatch.setattr(machine, "_GOVERNORS", tmp_path / "none")
    assert describe_machine().governor is None


def test_the_driver_of_a_gpu_is_read_from_its_module(monkeypatch, tmp_path):
    path = tmp_path / "version"
    path.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Wed Jan 29\n")
    monkeypatch.setattr(machine, "_NVIDIA", path)
    assert machine._read_driver() == "570.86.10"
    monkeypatch.setattr(machine, "_NVIDIA", tmp_path / "none")
    assert machine._read_driver() is None


def test_the_cpu_time_of_a_child_counts_while_it_runs_and_after_its_end():
    before = resource_usage.cpu_seconds()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        child.stdout.readline()
        took = psutil.Process(child.pid).cpu_times().user
        alive = resource_usage.cpu_seconds() - before
        child.communicate("\n")
    assert took > 0
    assert alive > took - TICK
    assert resource_usage.cpu_seconds() - before > took - TICK


def test_the_machine_is_at_least_as_busy_as_this_process():
    own, machine = resource_usage.cpu_seconds(), resource_usage.machine_cpu_seconds()
    while resource_usage.cpu_seconds() - own < 0.1:
        sum(range(10_000))
    assert resource_usage.machine_cpu_seconds() - machine > 0.1 - 5 * TICK


def test_usage_has_cpu_time_and_peak_memory():
    assert resource_usage.memory_bytes() > 10**6
    share = resource_usage.ProcessorShare()
    block = bytearray(64 << 20)
    assert share.own_seconds() >= 0
    assert resource_usage.peak_memory_bytes() > len(block)
    assert resource_usage.peak_gpu_bytes() is None
