"""Samples of the threads that run loops: the user's line, the part of the step, the GIL."""

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
from headrace.runtime.threads import call_every

_FIRST_SECONDS: Final = (*repeat(0.05, 40), *repeat(0.1, 100), *repeat(0.2, 100))
"""Times before the first samples: enough of them for a loop of seconds."""
_INTERVAL_SECONDS: Final = 0.5
"""Time between later samples; one costs the loop up to 1 ms, mostly for handing over the GIL."""
_OWN_THREADS: Final = 2
"""Threads that run Python where no other can have the GIL: the loop's and the sampler's."""
_INSTALLED: Final = ("site-packages", "dist-packages", f"{Path('lib') / 'python'}")
"""Parts of the paths of installed code."""
_FETCHING: Final = "headrace.instrumentation.dataloader_hook"
"""Module that asks a loader for its next batch."""
_LIBRARIES: Final = ("torch.", "headrace.")
"""Prefixes of the modules that run on behalf of a loop."""


def find_place(frame: FrameType | None, *, within: str = "") -> Place | None:
    """Return the innermost line of the user's own code, or else of a library's; None: no such line.

    Args:
        frame: The innermost frame.
        within: Module whose callers are not asked.
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
    """Return whether code is a library's, by the name of its file."""
    return file.startswith("<") or any(part in file for part in _INSTALLED)


def take_sample(parts: StepParts) -> None:
    """Add a sample to the steps, and the wait for a batch, in which the latest loop is now."""
    found = parts.now()
    if found is None:
        return
    ident, native_id, spans = found
    is_loading = any(part == LOADING for _, part in spans)
    # The dict is not kept: it holds the frame of this call, and would be a cycle of garbage.
    is_alone = len(sys._current_frames()) <= _OWN_THREADS
    frame = sys._current_frames().get(ident)
    place = find_place(frame, within=_FETCHING if is_loading else "")
    awaits_gil = False if is_alone else _awaits_gil(native_id)
    for span, part in spans:
        span.samples.append(Sample(part, place, awaits_gil))


def _awaits_gil(native_id: int) -> bool | None:
    """Return whether a thread waits for the GIL, which this thread has; None: not known.

    If it sleeps, and is given a core as soon as the GIL is offered, it waits for the GIL. One that
    is just awake may have waited for it, too: that is not known.
    """
    turns = CoreTurns.of_thread(native_id) if thread_sleeps(native_id) else None
    if turns is None:
        return None
    offer_interpreter()
    after = CoreTurns.of_thread(native_id)
    return after is not None and after.turns > turns.turns


class _Observation:
    """Hooks and sampler of this process, shared by all who observe."""

    def __init__(self) -> None:
        self._users, self._open, self._lock = 0, ExitStack(), ForkSafeLock()

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._open.enter_context(hook_parts())
                # Without a thread for it, there are no samples.
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
"""`with OBSERVED`: parts of steps are recorded and samples are taken. Blocks may overlap."""
