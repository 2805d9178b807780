"""Launches of an example, one after the other, forked from a process that has imported PyTorch.

As torchrun launches them, in its environment, without the seconds that each beginning costs.
"""

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
from multiprocessing import get_context
from pathlib import Path

import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


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
    done = subprocess.run(
        [sys.executable, __file__, json.dumps([asdict(each) for each in launches])],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # as torchrun has it
    )
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
