"""How long each part of the work on a few pictures took."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from headrace.runtime.child import Json
from headrace.runtime.clock import Clock

PARTS = ("decode", "encode", "write")
"""They follow each other in one worker."""
_FRAMES, _MILLISECONDS = 8, 500
"""Of a step, at most: often enough to see progress, seldom enough to cost nothing."""


class StepWatch:
    """Times a worker, and says each step: {"step": {...}}."""

    def __init__(
        self,
        video: int,
        say: Callable[[Json], None],
        clock: Clock,
        *,
        parts: Sequence[str] = PARTS,
        frames: int = _FRAMES,
    ) -> None:
        """Begin the first step of a chunk of a video; a step has so many frames at most."""
        self._video, self._say, self._clock = video, say, clock
        self._parts, self._most = parts, frames
        self._first, self._frames = 0, 0
        self._begin()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time one of the parts."""
        began_ns = self._clock.now_ns()
        try:
            yield
        finally:
            self._spent_ns[name] += self._clock.now_ns() - began_ns

    def came(self, index: int) -> None:
        """Frame number `index` is done."""
        self._first = index if self._frames == 0 else self._first
        self._frames += 1
        if self._frames == self._most or self._passed_ms() >= _MILLISECONDS:
            self.end_step()

    def end_step(self) -> None:
        """Say the step that was begun, if it has a picture."""
        if self._frames:
            work: Json = {name: spent / 1e6 for name, spent in self._spent_ns.items()}
            self._say(
                {
                    "step": {
                        "video": self._video,
                        "first_index": self._first,
                        "frames": self._frames,
                        "total_ms": self._passed_ms(),
                        "work_ms": work,
                    }
                }
            )
            self._begin()

    def _passed_ms(self) -> float:
        return (self._clock.now_ns() - self._began_ns) / 1e6

    def _begin(self) -> None:
        self._spent_ns = dict.fromkeys(self._parts, 0)
        self._first = self._frames = 0
        self._began_ns = self._clock.now_ns()
