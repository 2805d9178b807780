"""What the examples share: finding a GPU and the other processes, ending, and checkpoints."""

import argparse
import os
import pickle  # for the name of the error with which torch refuses a file
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import distributed, nn

from headrace import SlotMemory
from headrace.errors import ConfigError, HeadraceError

INTERRUPTED = 130


def positive(text: str) -> int:
    """Return the number that an option is given, which must be at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


@contextmanager
def joined(parser: argparse.ArgumentParser) -> Iterator[torch.device]:
    """Join the processes that torchrun started, if it did; give the device of this one.

    A process that has no GPU to itself where others have one, and media or options that headrace
    refuses, end it with one line that says why; Ctrl-C ends it with code 130.
    """
    try:
        yield _device_of_this_process(parser)
    except HeadraceError as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")
    except KeyboardInterrupt:
        parser.exit(INTERRUPTED)
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def rank() -> int:
    """Return the number of this process among all; 0 where it is alone."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def add_checkpoint_options(parser: argparse.ArgumentParser) -> None:
    """Let the user say where a `Checkpoint` is kept, and how often."""
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="file that is written, and read at the start if it is there; all processes need it",
    )
    parser.add_argument(
        "--save-every",
        type=positive,
        default=20,
        help="steps from one checkpoint to the next: the most that a kill loses (%(default)s)",
    )


class Resumable(Protocol):
    """A loader that can say where training stands, and go on from there."""

    def state_dict(self) -> dict[str, int]:
        """Return where training stands after the batch that was yielded last."""
        ...

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on after it; another loader's state is refused: ConfigError."""
        ...


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A file with all that is needed to go on.

    Also with another number of processes, unless there is `memory`: each has that of its own clips.
    """

    path: Path | None
    """Every process reads it, and the first one writes it; None: nothing is kept."""
    every: int
    """Steps from one writing to the next. A kill loses at most so many, which are done again."""
    network: nn.Module
    """As it is without DistributedDataParallel, which gives its parts other names."""
    optimizer: torch.optim.Optimizer
    loader: Resumable
    memory: SlotMemory | None = None
    """What a model remembers of the clips of this process; all processes then save together."""

    def resume(self, device: torch.device) -> int:
        """Take up what an earlier run left; return how many steps it did.

        Raises:
            ConfigError: the file is of other videos or another sampling, or no checkpoint.
        """
        if self.path is None or not self.path.exists():
            return 0
        state = _read(self.path, device)
        self.loader.load_state_dict(state["loader"])
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.memory is not None:
            self.memory.load_state_dict(state["memories"][rank()])
        if rank() == 0:
            print(f"going on after step {state['step']}", flush=True)
        return int(state["step"])

    def after(self, step: int) -> None:
        """Write the file, if it is due after `step`."""
        if step % self.every == 0:
            self.save(step)

    def save(self, step: int) -> None:
        """Write the file, whole: a kill meanwhile leaves the one that was there.

        Raises:
            ConfigError: it cannot be written.
        """
        if self.path is None:
            return
        memories = [] if self.memory is None else _of_all(self.memory.state_dict())
        if rank() != 0:
            return
        state = {
            "step": step,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
            "memories": memories,
        }
        part = self.path.with_name(f"{self.path.name}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(state, part)
            part.replace(self.path)
        except (OSError, RuntimeError) as error:  # the latter is torch's word for a full disk, too
            raise ConfigError(f"cannot write the checkpoint {self.path}: {error}") from error
        print(f"step {step} saved", flush=True)


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    """Return what `Checkpoint.save` wrote: ConfigError, if it did not."""
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is of another kind, or damaged"
        raise ConfigError(
            f"{path} cannot be read as a checkpoint: {why}; name another file, which is made"
        ) from error
    if not isinstance(state, dict) or not {"step", "network", "optimizer", "loader"} <= {*state}:
        raise ConfigError(
            f"{path} is no checkpoint of an example; name another file, which is made"
        )
    return state


def _of_all(memory: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the processes remember, in their order."""
    if not distributed.is_initialized():
        return [memory]
    kept = {name: None if each is None else each.cpu() for name, each in memory["memory"].items()}
    found = [memory] * distributed.get_world_size()
    distributed.all_gather_object(found, {**memory, "memory": kept})
    return found


def _device_of_this_process(parser: argparse.ArgumentParser) -> torch.device:
    """Return it, after joining the others, with NCCL between GPUs and Gloo without any."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus and local >= gpus:
        parser.exit(
            2,
            f"{parser.prog}: error: process {local} of this machine has no GPU to itself, as there "
            f"are {gpus}; ask for --nproc_per_node={gpus} at most\n",
        )
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    if "RANK" in os.environ:  # started by torchrun
        distributed.init_process_group("nccl" if gpus else "gloo")
    return device
