"""Sampler of threads that run loops: line of the user's code, part of the step, GIL."""

import sys
from contextlib import ExitStack, suppress
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from types import FrameType
from typing import Final

from headrace.instrumentation.step_hooks import hook_parts
from headrace.instrumentation.step_parts import LOADING, PARTS, Place, Sample, StepParts
from headrace.runtime.clock import CoreTurns, offer_interpreter, thread_sleeps
from headrace.runtime.fork_safety import ForkSafeLock
from headrace.runtime.synchronization import call_every

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
                self._open.enter_context(hook_parts())
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
