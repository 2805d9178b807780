"""Evaluation mode for as long as a block runs; each module's own mode is restored after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

from headrace.runtime.thread_lock import ThreadLock


@dataclass
class _Held:
    training: bool
    """Its mode before the first block."""
    blocks: int = 0
    """Blocks that hold it; the last one restores its mode."""


_held: WeakKeyDictionary[nn.Module, _Held] = WeakKeyDictionary()
_lock = ThreadLock()


def is_training(model: Any) -> bool:
    """Whether a model is a module of which any part is in training mode."""
    return isinstance(model, nn.Module) and any(map(_mode_of, model.modules()))


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """Keep a module and all its parts in evaluation mode inside the block.

    Afterwards, also after an error, each part has the mode it had before, which `train()` and
    `eval()` of the whole cannot restore. The flags are set one by one: `train` and `eval` of a
    module may do more, or refuse. Blocks of one module may overlap, in several threads too.

    Args:
        model: The module. Of any other callable nothing is known, and nothing changed.
    """
    parts = list(model.modules()) if isinstance(model, nn.Module) else []
    with _lock:
        # All are read before one is set: a compiled module passes its mode on to the one inside.
        taken = {part: _mode_of(part) for part in parts if _mode_of(part) or part in _held}
        for part, training in taken.items():
            _held.setdefault(part, _Held(training)).blocks += 1
            part.training = False
    try:
        yield
    finally:
        with _lock:
            for part in taken:
                held = _held[part]
                held.blocks -= 1
                if not held.blocks:
                    part.training = held.training
                    del _held[part]


def _mode_of(part: nn.Module) -> bool:
    """Return whether it is in training mode; a frozen TorchScript module has none."""
    return getattr(part, "training", False)
