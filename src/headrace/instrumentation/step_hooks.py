"""Hooks into PyTorch that time the parts of a step while a loop is profiled."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, Final

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from headrace.instrumentation.step_parts import (
    BACKWARD,
    CHECKPOINT,
    COLLECTIVE,
    COPY,
    FORWARD,
    LOGGING,
    NO_GRADIENTS,
    OPTIMIZER,
    PARTS,
    REST,
)
from headrace.runtime.clock import this_thread

_COLLECTIVES: Final = (
    *("all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "broadcast"),
    *("broadcast_object_list", "reduce", "reduce_scatter", "reduce_scatter_tensor", "barrier"),
    *("all_to_all", "all_to_all_single", "monitored_barrier", "gather", "scatter"),
)
_FUNCTIONS: Final = {
    # Private functions where objects of the user may hold, and pickle, the public ones.
    "torch.autograd": {"_engine_run_backward": BACKWARD},
    "torch.serialization": {"_save": CHECKPOINT, "_legacy_save": CHECKPOINT},
    "torch.distributed.checkpoint": {"save": CHECKPOINT, "async_save": CHECKPOINT},
    "safetensors.torch": {"serialize_file": CHECKPOINT},
    "torch.distributed": dict.fromkeys(_COLLECTIVES, COLLECTIVE),
}
"""Module → function → part."""


@contextmanager
def hook_parts() -> Iterator[None]:
    """Time the parts of all steps in `PARTS` while the block runs; blocks must not overlap.

    A model that `torch.compile` compiles in the block is compiled again after the block.
    """
    with ExitStack() as hooks:
        _replace(hooks, torch.nn.Module, "__call__", _timed_forward)
        for module, functions in _FUNCTIONS.items():
            for name, part in functions.items():
                if hasattr(sys.modules.get(module), name):
                    _replace(hooks, sys.modules[module], name, _timed(part))
        # Not `_log`, which finds the caller by counting frames.
        _replace(hooks, logging.Logger, "makeRecord", _timed(LOGGING))
        _replace(hooks, logging.Logger, "handle", _timed(LOGGING))
        writer = getattr(sys.modules.get("torch.utils.tensorboard.writer"), "SummaryWriter", None)
        for name in [*vars(writer or object)]:
            if name.startswith("add_") or name == "flush":
                _replace(hooks, writer, name, _timed(LOGGING))
        if torch.cuda.is_available():
            _replace(hooks, torch.Tensor, "to", timed_copy)
            _replace(hooks, torch.Tensor, "cuda", timed_copy)
        before = register_optimizer_step_pre_hook(_before_optimizer)
        after = register_optimizer_step_post_hook(_after_optimizer)
        hooks.callback(before.remove)
        hooks.callback(after.remove)
        yield


def _before_optimizer(
    optimizer: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Begin the part of the optimizer; its closure is not included."""
    if torch.compiler.is_compiling() or not PARTS.enter(OPTIMIZER):
        return None
    first = arguments[1] if len(arguments) > 1 else None
    if callable(first):
        return (arguments[0], _timed(REST)(first), *arguments[2:]), keywords
    if callable(closure := keywords.get("closure")):
        return arguments, keywords | {"closure": _timed(REST)(closure)}
    return None


def _after_optimizer(*_: Any) -> None:
    if not torch.compiler.is_compiling():
        PARTS.leave(OPTIMIZER)


def _replace(
    hooks: ExitStack,
    owner: Any,
    name: str,
    timed: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> None:
    """Replace a function by its timed version; later restore it, unless it was replaced again."""
    original, is_own = getattr(owner, name), name in vars(owner)
    replacement = timed(original)
    setattr(owner, name, replacement)

    def restore() -> None:
        if getattr(owner, name) is replacement and is_own:
            setattr(owner, name, original)
        elif getattr(owner, name) is replacement:
            delattr(owner, name)

    hooks.callback(restore)


def _timed(part: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def timed(*arguments: Any, **keywords: Any) -> Any:
            if torch.compiler.is_compiling() or not PARTS.enter(part):
                return call(*arguments, **keywords)
            try:
                return call(*arguments, **keywords)
            finally:
                PARTS.leave(part)

        return timed

    return wrap


def _timed_forward(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the timed `Module.__call__`: only the outermost call is timed."""

    @wraps(call)
    def timed(module: Any, /, *arguments: Any, **keywords: Any) -> Any:
        # Compiled graphs are not timed; a module inside a part costs 0.2 µs.
        if torch.compiler.is_compiling() or PARTS.inside == this_thread():
            return call(module, *arguments, **keywords)
        part = FORWARD if torch.is_grad_enabled() else NO_GRADIENTS
        if not PARTS.enter(part):
            return call(module, *arguments, **keywords)
        try:
            return call(module, *arguments, **keywords)
        finally:
            PARTS.leave(part)

    return timed


def timed_copy(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the timed `Tensor.to`; a call without a copy to another device counts as rest."""

    @wraps(call)
    def timed(tensor: Any, /, *arguments: Any, **keywords: Any) -> Any:
        if torch.compiler.is_compiling() or not PARTS.enter(COPY):
            return call(tensor, *arguments, **keywords)
        actual: str | None = REST
        try:
            result = call(tensor, *arguments, **keywords)
            if result.device != tensor.device:
                actual = None
            return result
        finally:
            PARTS.leave(COPY, actual)

    return timed
