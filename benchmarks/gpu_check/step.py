"""A step of the check, as a value: what is run, how long it may take, how its output is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Need = Literal["a GPU", "NVDEC", "PyNvVideoCodec", "bench decode", "bench transfer"]
"""What not every machine has, or not every version of headrace."""


class UnreadError(Exception):
    """What a step printed is not what it prints when all went well; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the output of a step says."""

    said: str
    """In a line."""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    """A table, where the step makes one."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A process that ended by itself."""

    exit_status: int
    stdout: str
    stderr: str


Read = Callable[[Ended], Reading]
"""Raises UnreadError."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that is checked or measured, in a process of its own."""

    name: str
    """`run:3`: --only takes it, or what stands before the colon."""
    asks: str
    """What it is about, in a few words."""
    arguments: tuple[str, ...]
    """Of Python: `-m headrace run ...`."""
    limit_seconds: float
    """The process is ended then."""
    read: Read
    exit_status: int = 0
    """With which it ends when all is as it should be."""
    needs: tuple[Need, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of its process, besides those of this one."""

    @property
    def group(self) -> str:
        """What stands before the colon of its name."""
        return self.name.partition(":")[0]
