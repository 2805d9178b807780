"""Runs of examples as by a user, and launches forked from a process with PyTorch."""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import torch

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
    """Return the stdout of a run that must succeed."""
    done = ended(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended(*command, **environment):
    """Return the completed process of a run."""
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | environment,
    )


def changed(change="", *command, **environment):
    """Return the run of an example after `change`, a line of Python that simulates a machine."""
    return ended("-c", _CHANGED.format(change=change), *command, **environment)


def stopped(*command, when, by=signal.SIGKILL):
    """Send a signal to a run when it prints `when`; return it with this line and its stderr."""
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


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Start of an example."""

    command: tuple[str, ...]
    """Script and arguments."""
    ranks: int | None = None
    """Processes, as of torchrun; None: one process without a group."""
    killed_at: int | None = None
    """1-based step in which each process kills itself with signal 9."""


@dataclass(frozen=True, kw_only=True)
class LaunchResult:
    """Result of a launch."""

    codes: list[int]
    """Exit code of each process; -9 if it was killed."""
    output: str
    """stdout and stderr of all processes."""


def launch_all(launches: list[Launch]) -> list[LaunchResult]:
    """Return the result of each launch."""
    done = ended(__file__, json.dumps(list(map(asdict, launches))), OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    return [LaunchResult(**result) for result in json.loads(done.stdout)]


def _launch(launch: Launch) -> LaunchResult:
    with tempfile.TemporaryFile("w+") as out:
        port = _free_port()
        processes = [
            get_context("fork").Process(target=_run, args=(launch, rank, port, out.fileno()))
            for rank in range(launch.ranks or 1)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        out.seek(0)
        return LaunchResult(codes=[process.exitcode for process in processes], output=out.read())


def _run(launch: Launch, rank: int, port: int, out: int) -> None:
    os.dup2(out, 1)
    os.dup2(out, 2)
    if launch.ranks is not None:
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(launch.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    if launch.killed_at is not None:
        torch.optim.AdamW = _killing_optimizer(torch.optim.AdamW, launch.killed_at)
    sys.argv = [*launch.command]
    runpy.run_path(launch.command[0], run_name="__main__")


def _killing_optimizer(optimizer, last_step):
    class KillingOptimizer(optimizer):
        steps = 0

        def step(self):
            self.steps += 1
            if self.steps == last_step:
                os.kill(os.getpid(), signal.SIGKILL)
            super().step()

    return KillingOptimizer


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def main() -> None:
    """Run the launches of the command line (JSON), and print their results as JSON."""
    launches = [Launch(**options) for options in json.loads(sys.argv[1])]
    sys.path.insert(0, str(EXAMPLES))
    for script in {launch.command[0] for launch in launches}:
        import_module(Path(script).stem)  # once, before the forks: its imports take seconds
    json.dump([asdict(_launch(launch)) for launch in launches], sys.stdout)


if __name__ == "__main__":
    main()
