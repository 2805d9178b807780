"""Fixture that forks the workers of benchmarks."""

import gc
import os
import subprocess
import sys
from io import StringIO
from tempfile import TemporaryFile
from types import SimpleNamespace

import pytest
import torch

from benchmarks import worker
from forked import exit_code, forked


@pytest.fixture
def forked_workers(monkeypatch):
    """Fork workers, because a new interpreter takes seconds of CPU time to import PyTorch."""

    def run(arguments, *, input, cwd, env, **_):
        with TemporaryFile("w+") as out, TemporaryFile("w+") as errors:

            def work():
                gc.freeze()  # only the parent may close the objects of the tests
                os.chdir(cwd)
                os.environ.update(env)
                sys.stdin, sys.stdout, sys.stderr = StringIO(input), out, errors
                worker.main()

            code = exit_code(forked(work))
            out.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(arguments, code, out.read(), errors.read())

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a forked process has no other threads
    monkeypatch.setattr(worker, "subprocess", SimpleNamespace(**{**vars(subprocess), "run": run}))
    yield
    torch.set_num_threads(threads)
