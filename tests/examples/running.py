"""Examples, run as a user runs them; and launches of one, forked from a process with PyTorch."""

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
        timeout=600,
        check=False,
        env=os.environ | environment,
    )


def changed(change="", *command, **environment):
    """Return the run of an example on a machine that is made another by a line of Python."""
    return ended("-c", _CHANGED.format(change=change), *command, **environment)


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


@dataclass(frozen=True, kw_only=True)
class Launch:
    """An example as it is started."""

    command: tuple[str, ...]
    """The script, and its arguments."""
    ranks: int | None = None
    """Processes that torchrun would start; None: it is started by itself."""
    killed_at: int | None = None
    """The step, from 1 on, in which each process kills itself with signal 9."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What became of a launch."""

    codes: list[int]
    """Of each process; -9 of one that was killed."""
    said: str
    """By all of them, on stdout and stderr."""


def launched(launches: list[Launch]) -> list[Ended]:
    """Return what became of each of `launches`."""
    asked = json.dumps([asdict(each) for each in launches])
    done = ended(__file__, asked, OMP_NUM_THREADS="1")  # as torchrun has it
    assert done.returncode == 0, done.stderr
    return [Ended(**each) for each in json.loads(done.stdout)]


def _launch(asked: Launch) -> Ended:
    with tempfile.TemporaryFile("w+") as out:
        port = _free_port()
        processes = [
            get_context("fork").Process(target=_run, args=(asked, rank, port, out.fileno()))
            for rank in range(asked.ranks or 1)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        out.seek(0)
        return Ended(codes=[process.exitcode for process in processes], said=out.read())


def _run(asked: Launch, rank: int, port: int, out: int) -> None:
    os.dup2(out, 1)
    os.dup2(out, 2)
    if asked.ranks is not None:
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(asked.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    if asked.killed_at is not None:
        torch.optim.AdamW = _mortal(torch.optim.AdamW, asked.killed_at)
    sys.argv = [*asked.command]
    runpy.run_path(asked.command[0], run_name="__main__")


def _mortal(optimizer, last):
    class Mortal(optimizer):
        steps = 0

        def step(self):
            self.steps += 1
            if self.steps == last:
                os.kill(os.getpid(), signal.SIGKILL)
            super().step()

    return Mortal


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Launch what the command line says in JSON, and write what became of it as JSON."""
    launches = [Launch(**each) for each in json.loads(sys.argv[1])]
    sys.path.insert(0, str(EXAMPLES))
    for script in {each.command[0] for each in launches}:
        import_module(Path(script).stem)  # and with it all that takes seconds
    json.dump([asdict(_launch(each)) for each in launches], sys.stdout)


if __name__ == "__main__":
    main()
