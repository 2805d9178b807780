"""Helpers of the examples: device and process group, exit codes, and checkpoints."""

import argparse
import os
import pickle  # for UnpicklingError, which torch.load raises
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
    """Return an option's value as an integer >= 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


@contextmanager
def joined(parser: argparse.ArgumentParser) -> Iterator[torch.device]:
    """Join the process group if torchrun started one, and yield the device of this process.

    Errors of headrace, and a missing GPU, end the process with a one-line message; Ctrl-C ends it
    with code 130.
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
    """Return the rank of this process; 0 without a process group."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def add_checkpoint_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a `Checkpoint`: its file and its interval."""
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="checkpoint file to write, and to resume from if it exists; shared by all processes",
    )
    parser.add_argument(
        "--save-every",
        type=positive,
        default=20,
        help="steps between two checkpoints, which a kill may lose (%(default)s)",
    )


class Resumable(Protocol):
    """A loader whose position can be saved and restored."""

    def state_dict(self) -> dict[str, int]:
        """Return the position after the last batch that was yielded."""
        ...

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume at a position; ConfigError for the state of another loader."""
        ...


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A file from which a run resumes.

    The number of processes may change, except with `memory`, as each process has its own clips.
    """

    path: Path | None
    """Every process reads it, rank 0 writes it; None: no checkpoint."""
    every: int
    """Steps between two checkpoints. A kill loses at most this many steps, which are repeated."""
    network: nn.Module
    """The unwrapped network, as DistributedDataParallel renames parameters."""
    optimizer: torch.optim.Optimizer
    loader: Resumable
    memory: SlotMemory | None = None
    """The model's memory of this process's clips; all processes then save together."""

    def resume(self, device: torch.device) -> int:
        """Restore the state of an earlier run; return its number of steps.

        Raises:
            ConfigError: the file is of other videos or another sampling, or is not a checkpoint.
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
            print(f"resuming after step {state['step']}", flush=True)
        return int(state["step"])

    def after(self, step: int) -> None:
        """Write the file if a checkpoint is due after `step`."""
        if step % self.every == 0:
            self.save(step)

    def save(self, step: int) -> None:
        """Write the file atomically: a kill leaves the old file.

        Raises:
            ConfigError: the file cannot be written.
        """
        if self.path is None:
            return
        memories = [] if self.memory is None else _gather(self.memory.state_dict())
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
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError on a full disk
            raise ConfigError(f"cannot write the checkpoint {self.path}: {error}") from error
        print(f"step {step} saved", flush=True)


def _read(path: Path, device: torch.device) -> dict[str, Any]:
    """Return the contents of a checkpoint; ConfigError if it cannot be read."""
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        reason = error.strerror if isinstance(error, OSError) else "of another format, or damaged"
        raise ConfigError(
            f"cannot read the checkpoint {path}: {reason}; give a checkpoint, or a new file"
        ) from error
    if not isinstance(state, dict) or not {"step", "network", "optimizer", "loader"} <= {*state}:
        raise ConfigError(
            f"{path} is not a checkpoint of this example; give a checkpoint, or a new file"
        )
    return state


def _gather(memory: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the memory states of all processes, by rank."""
    if not distributed.is_initialized():
        return [memory]
    tensors = memory["memory"].items()
    on_cpu = {name: None if tensor is None else tensor.cpu() for name, tensor in tensors}
    memories = [memory] * distributed.get_world_size()
    distributed.all_gather_object(memories, {**memory, "memory": on_cpu})
    return memories


def _device_of_this_process(parser: argparse.ArgumentParser) -> torch.device:
    """Return the device, after joining the process group: NCCL with GPUs, Gloo without."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus and local >= gpus:
        parser.exit(
            2,
            f"{parser.prog}: error: process {local} of this machine needs its own GPU, and there "
            f"are {gpus}; give --nproc_per_node={gpus} or less\n",
        )
    device = torch.device("cuda", local) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    if "RANK" in os.environ:  # started by torchrun
        distributed.init_process_group("nccl" if gpus else "gloo")
    return device
