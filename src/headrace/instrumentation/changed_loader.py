"""Changed arguments of one loop's DataLoader, set before its iterator is created."""

import weakref
from collections.abc import Mapping
from typing import Any, Final

import torch

from headrace.instrumentation.loader_info import describe_loader

LoaderChange = Mapping[str, Mapping[str, Any]]
"""`loop`: configuration in the session of the loop as it was; `options`: arguments of its loader
that differ now."""
_WITHOUT_WORKERS: Final[Mapping[str, object]] = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
}
"""Arguments that a DataLoader without workers must have."""
_PREFETCH: Final = 2
"""Default of a DataLoader with workers."""


def change_loader(loader: Any, location: str, change: LoaderChange) -> bool:
    """Set arguments of a DataLoader, if it is the loader of the loop to change; return whether.

    Dataset, sampler and collate function stay, so the batches and their order do, too. Only random
    draws inside a dataset differ, as they are those of the process that loads the batch.

    Args:
        loader: Any loader, about to be iterated.
        location: Line that iterates it.
        change: Loop and arguments.
    """
    if change["loop"] != {"loop": location, **dict(describe_loader(loader).configuration)}:
        return False
    options = dict(change["options"])
    if options.get("num_workers") == 0:
        options |= _WITHOUT_WORKERS
    elif "num_workers" in options and loader.prefetch_factor is None:
        options["prefetch_factor"] = _PREFETCH
    # Not setattr: a DataLoader refuses persistent_workers after its creation.
    loader.__dict__.update(options)
    return True


def keep_iterator(loader: Any, iterator: Any) -> None:
    """Have a loader use `iterator` in all its epochs: its workers were made persistent.

    `DataLoader.__iter__`, which keeps it, looked at the argument before the change.
    """
    loader.__dict__["_iterator"] = iterator
    iterator._reset = _Reset(iterator)


class _Reset:
    """Replacement of `iterator._reset`, which starts a further epoch.

    It draws the seed that new workers would get. Otherwise all later draws would differ, the order
    of the samples among them.
    """

    def __init__(self, iterator: Any) -> None:
        self._iterator, self._reset = weakref.ref(iterator), type(iterator)._reset

    def __call__(self, loader: Any) -> None:
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._reset(self._iterator(), loader)
