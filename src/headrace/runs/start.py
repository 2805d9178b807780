"""How long each part of starting took."""

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.profiling.run_records import StartUpPart
from headrace.runtime.clock import Clock


class StartWatch:
    """Times what is done before the first frame, part by part."""

    def __init__(self, clock: Clock, imports_seconds: float | None = None) -> None:
        """Nothing is timed yet but what the program took to get here, if that is known."""
        self.clock = clock
        self.parts: list[StartUpPart] = []
        """In the order they were done."""
        if imports_seconds is not None:
            self.add("imports", imports_seconds)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what is done inside, and call it `name`."""
        began_ns = self.clock.now_ns()
        yield
        self.add(name, (self.clock.now_ns() - began_ns) / 1e9)

    def add(self, name: str, seconds: float) -> None:
        """Note a part that was timed elsewhere."""
        self.parts.append(StartUpPart(name=name, seconds=max(0.0, seconds)))
