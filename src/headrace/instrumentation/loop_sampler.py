"""Samples of the threads that run loops: the user's line, the part of the step, the GIL."""

import sys
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Final

from headrace.instrumentation.step_hooks import hook_parts
from headrace.instrumentation.step_parts import LOADING, PARTS, Place, Sample, StepParts
from headrace.runtime.clock import (
    SYSTEM_CLOCK,
    Clock,
    CoreTurns,
    offer_interpreter,
    thread_sleeps,
)
from headrace.runtime.threads import call_every

INTERVAL_SECONDS: Final = 0.02
"""Time between two samples; one takes some 50 µs."""
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
        module, file = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        if module == within:
            break
        if not module.startswith(_LIBRARIES):
            caller = caller or frame
            if not any(part in file for part in _INSTALLED) and not file.startswith("<"):
                caller = frame
                break
        frame = frame.f_back
    if caller is None:
        return None
    name = Path(caller.f_code.co_filename).name
    return Place(f"{name}:{caller.f_lineno}", caller.f_code.co_qualname)


class LoopSampler:
    """Samples the thread of the loop that was active last."""

    def __init__(self, parts: StepParts, clock: Clock = SYSTEM_CLOCK) -> None:
        """Take no sample yet."""
        self._parts, self._clock = parts, clock
        self._last: tuple[int, int, CoreTurns | None] = (0, clock.now_ns(), None)
        """Thread, time and its turns at the last sample."""

    def sample(self) -> None:
        """Add a sample to the step, or the wait for a batch, in which the loop is now."""
        found = self._parts.now()
        if found is None:
            return
        ident, native_id, span, part = found
        within = _FETCHING if part == LOADING else ""
        place = find_place(sys._current_frames().get(ident), within=within)
        span.samples.append(Sample(part, place, self._measure_gil_wait(native_id)))

    def _measure_gil_wait(self, native_id: int) -> int | None:
        """Return the nanoseconds of the loop's wait for the GIL since the last sample.

        This thread has the GIL now. If the loop's thread sleeps, and is given a core as soon as the
        GIL is offered, it waits for the GIL: since the last sample, for all the time in which it
        neither ran nor waited for a core. A loop that alone uses Python has no such time.
        """
        sleeps, turns = thread_sleeps(native_id), CoreTurns.of_thread(native_id)
        now_ns, (thread, before_ns, before) = self._clock.now_ns(), self._last
        self._last = native_id, now_ns, turns
        if turns is None or before is None or thread != native_id:
            return None
        if not sleeps:
            return 0
        offer_interpreter()
        after = CoreTurns.of_thread(native_id)
        if after is None or after.turns == turns.turns:
            return 0
        on_core_ns = turns.worked_ns - before.worked_ns + turns.waited_ns - before.waited_ns
        return max(0, now_ns - before_ns - on_core_ns)


class _Observation:
    """Hooks and sampler of this process, shared by all who observe."""

    def __init__(self) -> None:
        self._users, self._open = 0, ExitStack()

    def __enter__(self) -> None:
        if not self._users:
            self._open.enter_context(hook_parts())
            self._open.enter_context(call_every(LoopSampler(PARTS).sample, INTERVAL_SECONDS))
        self._users += 1

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self._open.close()


OBSERVED: Final = _Observation()
"""`with OBSERVED`: parts of steps are told and samples are taken. Blocks may overlap."""
