"""What is used is counted over all processes, and on this process's cores."""

import subprocess
import sys

import psutil

from headrace.profiling.usage import (
    ProcessorShare,
    cpu_seconds,
    machine_cpu_seconds,
    memory_bytes,
)

TICK = 0.01
"""The kernel counts processor time in these."""
BUSY = "sum(range(3_000_000)); print(flush=True); input()"


def test_a_child_counts_while_it_lives_and_after_it():
    before = cpu_seconds()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        child.stdout.readline()
        took = psutil.Process(child.pid).cpu_times().user
        alive = cpu_seconds() - before
        child.communicate("\n")
    assert took > 0
    assert alive > took - TICK
    assert cpu_seconds() - before > took - TICK


def test_the_machine_is_as_busy_as_this_process_at_least():
    own, machine = cpu_seconds(), machine_cpu_seconds()
    while cpu_seconds() - own < 0.1:
        sum(range(10_000))
    assert machine_cpu_seconds() - machine > 0.1 - 5 * TICK


def test_memory_is_that_of_a_python_at_least():
    assert memory_bytes() > 10**6


def test_what_a_run_took_is_its_processor_time_and_its_greatest_memory():
    share = ProcessorShare()
    held = bytearray(64 << 20)
    used = share.used()
    assert used.cpu_seconds >= 0
    assert used.peak_memory_bytes > len(held)
    assert used.peak_gpu_bytes is None
