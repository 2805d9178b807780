"""Evaluation mode and frozen weights of models."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn
from torch.utils.checkpoint import checkpoint

from headrace.errors import ConfigError
from headrace.models.feature_extractor import no_such_layer
from headrace.runtime.fork_safety import ForkSafeLock


@dataclass
class _Held:
    training: bool
    """Its mode before the first block."""
    blocks: int = 0
    """Active blocks; the last one restores its mode."""


_held: WeakKeyDictionary[nn.Module, _Held] = WeakKeyDictionary()
_lock = ForkSafeLock()


def is_training(model: Any) -> bool:
    """Whether a model is a module with any part in training mode."""
    return isinstance(model, nn.Module) and any(map(_mode_of, model.modules()))


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """Keep a module and all its parts in evaluation mode during the block.

    Afterwards, also after an error, each part has its earlier mode, which `train()` and `eval()` of
    the whole module could not restore. The flags are set directly, because `train` and `eval` may
    be overridden. Blocks of one module may overlap, also in several threads.

    Args:
        model: The module. Other callables are left as they are.
    """
    parts = list(model.modules()) if isinstance(model, nn.Module) else []
    with _lock:
        # Read all flags before setting any: a compiled module forwards its mode to its inner
        # module.
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
    """Return whether `part` is in training mode; False for frozen TorchScript modules."""
    return getattr(part, "training", False)


def freeze_before(module: nn.Module, head: str, layer: str | None = None) -> tuple[str, ...]:
    """Freeze all weights except those of `layer` and of layers declared after it.

    torchvision's classifiers declare their layers in the order of execution.

    Args:
        module: Model.
        head: Name of its head, which is always trained.
        layer: First trained layer, by its name in `named_modules()`; None trains the head alone.

    Returns:
        Names of the trained weights.

    Raises:
        ConfigError: the layer is unknown.
    """
    known = {name: inner for name, inner in module.named_modules() if name}
    if layer is not None and layer not in known:
        raise ConfigError(no_such_layer(layer, known))
    positions = {name: position for position, (name, _) in enumerate(module.named_modules())}
    first = positions[head] if layer is None else min(positions[layer], positions[head])
    trained = []
    for name, weights in module.named_parameters():
        is_trained = positions[name.rpartition(".")[0]] >= first
        weights.requires_grad_(is_trained)
        if is_trained:
            trained.append(name)
    return tuple(trained)


def recompute(module: nn.Module) -> int:
    """Make the trained blocks of a model recompute activations in the backward pass
    (checkpointing).

    Saves memory at the cost of one more forward pass of these blocks. Frozen layers before the
    first trained one keep no activations anyway. The model must be in evaluation mode, so that it
    draws no random numbers.

    Returns:
        Number of recomputing blocks; 0: no memory is saved.
    """
    blocks = list(_trained_blocks(module))
    for block in blocks:
        block.forward = partial(
            checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False
        )
    return len(blocks)


def _trained_blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the outermost fully trained modules; for an `nn.Sequential`, its children."""
    for child in module.children():
        weights = list(child.parameters())
        is_sequence = type(child) in (nn.Sequential, nn.ModuleList)
        is_whole = weights and all(parameter.requires_grad for parameter in weights)
        if is_sequence or not is_whole:
            yield from _trained_blocks(child)
        elif list(child.children()):
            yield child
