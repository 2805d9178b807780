"""Ctrl-C and SIGTERM before there is anything to keep."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from headrace.cli.stopping import ending_on_sigterm

AT_ONCE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
from headrace.cli.stopping import ending_at_once
with ending_at_once():
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
        print("went on")
    except BaseException:
        print("swallowed")
"""


@pytest.fixture(autouse=True)
def _python_handles_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_library_swallows_ends_the_command_when_its_work_would_begin(number):
    with ending_on_sigterm() as ending:
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            ending.begin()
    assert not ending.has_begun


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_imports_end_at_once_whatever_they_catch(number, code):
    command = [sys.executable, "-c", AT_ONCE, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "headrace: interrupted\n")
