"""Changed arguments of the DataLoader of one loop, set before its iterator is created."""

import weakref
from collections.abc import Mapping
from typing import Any, Final

import torch

from headrace.instrumentation.loader_info import describe_loader

LoaderChange = Mapping[str, Mapping[str, Any]]
"""`loop`: configuration in the session of the unchanged loop; `options`: changed arguments of its
DataLoader."""
_WITHOUT_WORKERS: Final[Mapping[str, object]] = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
}
"""Arguments that a DataLoader without workers must have."""
_PREFETCH: Final = 2
"""Default prefetch factor of a DataLoader with workers."""


def change_loader(loader: Any, location: str, change: LoaderChange) -> bool:
    """Set the changed arguments if `loader` is that of the loop to change; return whether it is.

    Dataset, sampler and collate function stay the same, and so do the batches and their order. Only
    random draws inside the dataset differ, because they depend on the process that loads the batch.

    Args:
        loader: Any loader, before its iteration.
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
    # setattr fails: a DataLoader does not let persistent_workers change.
    loader.__dict__.update(options)
    return True


def keep_iterator(loader: Any, iterator: Any) -> None:
    """Make a loader use `iterator` in all epochs, for workers that a change made persistent.

    `DataLoader.__iter__` reads `persistent_workers` before the change, so it does not do this.
    """
    loader.__dict__["_iterator"] = iterator
    iterator._reset = _Reset(iterator)


class _Reset:
    """Replacement of `iterator._reset`, which starts another epoch.

    It draws the seed that new workers would get. Without this draw, all later draws would differ,
    including the order of the samples.
    """

    def __init__(self, iterator: Any) -> None:
        self._iterator, self._reset = weakref.ref(iterator), type(iterator)._reset

    def __call__(self, loader: Any) -> None:
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        self._reset(self._iterator(), loader)
