"""Observation of threads that run loops: hooks that time the parts of a step, and a sampler."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial, wraps
from itertools import repeat
from pathlib import Path
from types import FrameType
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
    LOADING,
    LOGGING,
    NO_GRADIENTS,
    OPTIMIZER,
    PARTS,
    REST,
    Place,
    Sample,
    StepParts,
)
from headrace.runtime.clock import CoreTurns, offer_interpreter, this_thread, thread_sleeps
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.runtime.synchronization import call_every

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
def _hook_parts() -> Iterator[None]:
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


_FIRST_SECONDS: Final = (*repeat(0.05, 40), *repeat(0.1, 100), *repeat(0.2, 100))
"""Intervals before the first samples; short, so that a loop of some seconds has enough samples."""
_INTERVAL_SECONDS: Final = 0.5
"""Interval between later samples; a sample costs the loop up to 1 ms, mostly to pass the GIL."""
_OWN_THREADS: Final = 2
"""Number of Python threads without others that could hold the GIL: the loop's and the sampler's."""
_INSTALLED: Final = ("site-packages", "dist-packages", f"{Path('lib') / 'python'}")
"""Parts of paths of installed code."""
_FETCHING: Final = "headrace.instrumentation.dataloader_hook"
"""Module that requests batches from a loader."""
_OPTIMIZERS: Final = "torch.optim.optimizer"
"""Module that calls the step of an optimizer."""
_LIBRARIES: Final = ("torch.", "headrace.")
"""Prefixes of modules whose lines are not shown; their callers are."""


def find_place(frame: FrameType | None, *, within: str = "") -> Place | None:
    """Return the innermost line of the user's code, or else of another library; None: neither.

    Args:
        frame: The innermost frame.
        within: Module at which the search ends; its callers are not searched.
    """
    caller = None
    while frame is not None:
        module, file = str(frame.f_globals.get("__name__")), frame.f_code.co_filename
        if module == within:
            break
        if not module.startswith(_LIBRARIES):
            caller = caller or frame
            if not _is_installed(file):
                caller = frame
                break
        frame = frame.f_back
    if caller is None:
        return None
    name = Path(caller.f_code.co_filename).name
    return Place(f"{name}:{caller.f_lineno}", caller.f_code.co_qualname)


@cache
def _is_installed(file: str) -> bool:
    """Return whether a file is of an installed library, by its name."""
    return file.startswith("<") or any(part in file for part in _INSTALLED)


def take_sample(parts: StepParts) -> None:
    """Add a sample to the open steps, and to the open wait for a batch, of the latest loop."""
    state = parts.now()
    if state is None:
        return
    ident, native_id, spans = state
    is_loading = any(part == LOADING for _, part in spans)
    # A reference to the dict would be a cycle, because the dict holds the frame of this call.
    is_alone = len(sys._current_frames()) <= _OWN_THREADS
    frame = sys._current_frames().get(ident)
    place = find_place(frame, within=_FETCHING if is_loading else "")
    if place is not None and any(part == OPTIMIZER for _, part in spans):
        is_inside = place == find_place(frame, within=_OPTIMIZERS)
        place = place._replace(in_optimizer=is_inside)
    awaits_gil = False if is_alone else _awaits_gil(native_id)
    for span, part in spans:
        span.samples.append(Sample(part, place, awaits_gil))


def _awaits_gil(native_id: int) -> bool | None:
    """Return whether a thread waits for the GIL, which this thread holds; None: not known.

    A thread waits for the GIL if it sleeps, and gets a core as soon as the GIL is offered. It is
    not known of a thread that is awake.
    """
    turns = CoreTurns.of_thread(native_id) if thread_sleeps(native_id) else None
    if turns is None:
        return None
    offer_interpreter()
    after = CoreTurns.of_thread(native_id)
    return after is not None and after.turns > turns.turns


class _Observation:
    """Hooks and sampler of this process; blocks share them."""

    def __init__(self) -> None:
        self._users, self._open, self._lock = 0, ExitStack(), ForkSafeLock()

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._open.enter_context(_hook_parts())
                # If no thread can be started, there are no samples.
                with suppress(RuntimeError):
                    sampling = call_every(
                        partial(take_sample, PARTS), _INTERVAL_SECONDS, first=_FIRST_SECONDS
                    )
                    self._open.enter_context(sampling)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._open.close()


OBSERVED: Final = _Observation()
"""`with OBSERVED:` records the parts of steps and takes samples. Blocks may overlap."""
