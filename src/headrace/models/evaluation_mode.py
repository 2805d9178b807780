"""Evaluation mode and frozen weights of models."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn
from torch.utils.checkpoint import checkpoint

from headrace.models.feature_extractor import find_layer
from headrace.runtime.fork_safety import ForkSafeLock


@dataclass
class _PreviousMode:
    training: bool
    """Mode of the module before its first block."""
    blocks: int = 0
    """Active blocks; the last one restores the mode."""


_previous_modes: WeakKeyDictionary[nn.Module, _PreviousMode] = WeakKeyDictionary()
_lock = ForkSafeLock()


def is_training(model: Any) -> bool:
    """Return whether a model is a module with any part in training mode."""
    return isinstance(model, nn.Module) and any(map(_mode_of, model.modules()))


@contextmanager
def evaluation_mode(model: Any) -> Iterator[None]:
    """Keep a module and all its parts in evaluation mode during the block.

    Afterwards, also after an error, each part has its previous mode; `train()` or `eval()` of the
    whole module could not restore mixed modes. The flags are set directly, because `train` and
    `eval` may be overridden. Blocks of one module may overlap, also in several threads.

    Args:
        model: Module; any other callable is not changed.
    """
    parts = list(model.modules()) if isinstance(model, nn.Module) else []
    with _lock:
        # Read all flags before setting any: a compiled module forwards its mode to its inner
        # module.
        modes = {
            part: _mode_of(part) for part in parts if _mode_of(part) or part in _previous_modes
        }
        for part, training in modes.items():
            _previous_modes.setdefault(part, _PreviousMode(training)).blocks += 1
            part.training = False
    try:
        yield
    finally:
        with _lock:
            for part in modes:
                previous = _previous_modes[part]
                previous.blocks -= 1
                if not previous.blocks:
                    part.training = previous.training
                    del _previous_modes[part]


def _mode_of(part: nn.Module) -> bool:
    """Return whether `part` is in training mode; False for frozen TorchScript modules."""
    return getattr(part, "training", False)


def freeze_before(module: nn.Module, head: str, layer: str | None = None) -> tuple[str, ...]:
    """Freeze all weights except those of `layer` and of layers declared after it.

    torchvision's classifiers declare their layers in the order of execution.

    Args:
        module: Model.
        head: Name of the head, which is always trained.
        layer: First trained layer, by its name in `named_modules()`; None: only the head.

    Returns:
        Names of the trained weights.

    Raises:
        ConfigError: the layer is unknown.
    """
    if layer is not None:
        find_layer(module, layer)
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
    """Make the trained blocks of a model recompute activations in the backward pass.

    This is activation checkpointing: it saves memory at the cost of one more forward pass of these
    blocks. Frozen layers before the first trained one store no activations in any case. The model
    must be in evaluation mode, so that it draws no random numbers.

    Returns:
        Number of recomputing blocks; 0 saves no memory.
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
        is_trained = weights and all(parameter.requires_grad for parameter in weights)
        if is_sequence or not is_trained:
            yield from _trained_blocks(child)
        elif list(child.children()):
            yield child
