"""Examples, run as a user runs them."""

import os
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
TWO_PROCESSES = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")

_CHANGED = f"""
import runpy, signal, sys, torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
sys.path.insert(0, {str(EXAMPLES)!r})
{{change}}
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*command):
    """Return what a run says that must go well."""
    done = ended(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended(*command, **environment):
    """Return the run, with its code and what it said."""
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | environment,
    )


def changed(change="", *command, **environment):
    """Return the run of an example on a machine that is made another by a line of Python."""
    return ended("-c", _CHANGED.format(change=change), *command, **environment)


def two_changed(change, *command):
    """Return the run of an example as two processes that are made others by a line of Python."""
    words = ("--no-python", sys.executable, "-c", _CHANGED.format(change=change), *command)
    return ended(*TWO_PROCESSES, *words)


def stopped(*command, when, by=signal.SIGKILL):
    """Stop a run by a signal as soon as it says `when`; return it: that line, and its stderr."""
    words = [sys.executable, "-c", _CHANGED.format(change=""), *command]
    if command[0].startswith("-"):
        words = [sys.executable, *command]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        line = ""
        for line in islice(process.stdout, 1000):
            if when in line:
                process.send_signal(by)
                break
        else:
            process.kill()
        _, errors = process.communicate(timeout=60)
    return subprocess.CompletedProcess(words, process.returncode, line, errors)
