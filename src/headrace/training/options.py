"""What may be asked of every loader, and how it is typed: as keyword arguments, written once."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

import torch

from headrace.decode.index_store import IndexStore
from headrace.runtime.affinity import available_cores
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.training.collate import Collate, Transform

P = ParamSpec("P")
Owner = TypeVar("Owner")
Asked = TypeVar("Asked")

_ARGUMENT = re.compile(r"^    (\w+): .*(?:\n {5,}.*)*", re.MULTILINE)
"""What a docstring says of one argument."""


@dataclass(frozen=True, kw_only=True)
class LoaderOptions:
    """What may be asked of every loader.

    Checked where a loader opens, not here: a rank that fails must be heard of by those that would
    wait for it (`ranks.agreement`).

    Args:
        workers: Decoding threads, each with a decoder of its own; None means one for each core
            this process may use.
        transform: Called with the frames of each batch, on their device.
        device: Where batches go; None leaves them on the CPU.
        pin_memory: Copy batches to page-locked memory, so that CUDA copies them in the
            background.
        rank: This process among `num_replicas`; None asks torch.distributed, if it is
            initialised, and is the only one otherwise.
        num_replicas: Processes that share an epoch; None as for `rank`.
        stall_seconds: How long a worker may be at one job before it is said to hang; None: for
            ever.
        store: Where indexes are kept; None means the user's cache folder.
        clock: What measures waiting.
    """

    memory_budget: int | str = "1GiB"
    lookahead: int | None = None
    workers: int | None = None
    transform: Transform | None = None
    device: torch.device | str | None = None
    pin_memory: bool = False
    rank: int | None = None
    num_replicas: int | None = None
    stall_seconds: float | None = 120.0
    store: IndexStore | None = None
    clock: Clock = SYSTEM_CLOCK

    def num_threads(self) -> int:
        """Return how many threads decode."""
        return len(available_cores()) if self.workers is None else self.workers

    def collate(self) -> Collate:
        """Return what happens to the pictures of a batch. Raises as `Collate` does."""
        return Collate(self.transform, self.device, self.pin_memory)


def takes(
    options: Callable[P, Asked],
) -> Callable[[Callable[[Owner, Asked], None]], Callable[Concatenate[Owner, P], None]]:
    """Let an `__init__` that takes one dataclass be called with the fields of it.

        @takes(FrameOptions)
        def __init__(self, asked: FrameOptions) -> None: ...

    `FrameLoader(videos, batch_size=8)` is given `FrameOptions(videos, batch_size=8)`. Each argument
    is written once, with its type, default and doc; type checkers, `help` and `inspect.signature`
    see it where it is typed. (A TypedDict to unpack has no place for defaults; and if the loader
    itself were the dataclass, its arguments could be set later, to no effect.)
    """

    def decorate(init: Callable[[Owner, Asked], None]) -> Callable[Concatenate[Owner, P], None]:
        @wraps(init)
        def with_arguments(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> None:
            init(self, options(*args, **kwargs))

        parameters = _parameters(cast(type, options))
        # So that a wrong argument is said to be one of what was called.
        vars(options)["__init__"].__qualname__ = init.__qualname__
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        with_arguments.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
        documented = _documented(cast(type, options))
        lines = "\n".join(documented[each.name] for each in parameters)
        with_arguments.__doc__ = f"{inspect.getdoc(init)}\n\nArgs:\n{lines}\n"
        return with_arguments

    return decorate


def _parameters(options: type) -> list[inspect.Parameter]:
    """Return the arguments of a dataclass: its own first, then those it inherits."""
    declared = [name for each in options.__mro__ for name in vars(each).get("__annotations__", {})]
    found = inspect.signature(options).parameters.values()
    return sorted(found, key=lambda each: (each.kind, declared.index(each.name)))


def _documented(options: type) -> dict[str, str]:
    """Return what is said of each argument, indented; a class says it better than its parents."""
    found: dict[str, str] = {}
    for each in reversed(options.__mro__):
        _, _, arguments = inspect.cleandoc(each.__doc__ or "").partition("\nArgs:\n")
        found |= {match[1]: match[0] for match in _ARGUMENT.finditer(arguments)}
    return found
