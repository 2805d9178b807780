"""Letting every loader of a process tell of its iterations, from the moment its module is there.

What watches is imported with the first iteration: while PyTorch is being imported, nothing of it
can be used.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from headrace.watching.after_import import after_import

_METHODS: Final = {
    "torch.utils.data.dataloader": ("DataLoader", "_get_iterator"),
    "headrace.training.resumable": ("ResumableLoader", "__iter__"),
}
"""Module → a class in it, and the method of it that begins an iteration."""


def patch_loaders() -> None:
    """Let DataLoaders and the loaders of headrace be watched, once somebody imports them."""
    for module in _METHODS:
        after_import(module, _patch)


def _patch(module: str) -> None:
    kind, method = _METHODS[module]
    of = getattr(sys.modules[module], kind)
    setattr(of, method, _told(getattr(of, method)))


def _told(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The method `own`, which `everywhere` hears of."""

    @wraps(own)
    def begin(loader: Any) -> Any:
        from headrace.watching.everywhere import iterated

        return iterated(loader, own)

    return begin
