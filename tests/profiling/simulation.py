"""Discrete-event simulation of processes that work, wait and share queues."""

import heapq
import math
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field

Process = Generator[object, None, None]
"""Yields a `Work`, a `Sleep` or a `Wait`, and continues when it is done."""


@dataclass(frozen=True)
class Work:
    """Milliseconds of one core, which processes may share."""

    ms: float


@dataclass(frozen=True)
class Sleep:
    """Milliseconds without a core."""

    ms: float


@dataclass(frozen=True, eq=False)
class Wait:
    """Wait for `signal`."""

    signal: "Signal"


@dataclass(eq=False)
class Signal:
    """Wakes all waiting processes, which check their condition again."""

    waiting: deque[Process] = field(default_factory=deque)


class World:
    """Runs processes, which share `cores` cores evenly; its time is `now_ms`."""

    def __init__(self, cores: float = math.inf) -> None:
        self.now_ms = 0.0
        self._cores = cores
        self._later: list[tuple[float, int, Process]] = []
        self._at_work: dict[int, tuple[Process, float]] = {}
        self._ready: deque[Process] = deque()
        self._count = 0

    def start(self, process: Process) -> None:
        self._ready.append(process)

    def give(self, signal: Signal) -> None:
        """Wake all processes that wait for `signal`."""
        self._ready.extend(signal.waiting)
        signal.waiting.clear()

    def run(self) -> None:
        """Run until all processes have ended or wait for a signal."""
        while True:
            while self._ready:
                self._step(self._ready.popleft())
            if not self._later and not self._at_work:
                return
            rate = min(1.0, self._cores / len(self._at_work)) if self._at_work else 1.0
            least = min((left for _, left in self._at_work.values()), default=math.inf)
            due = self._later[0][0] if self._later else math.inf
            until = min(due, self.now_ms + least / rate)
            passed, self.now_ms = until - self.now_ms, until
            for key, (process, left) in list(self._at_work.items()):
                if left - passed * rate <= 1e-9:
                    del self._at_work[key]
                    self._ready.append(process)
                else:
                    self._at_work[key] = (process, left - passed * rate)
            while self._later and self._later[0][0] <= self.now_ms:
                self._ready.append(heapq.heappop(self._later)[2])

    def _step(self, process: Process) -> None:
        request = next(process, None)
        self._count += 1
        match request:
            case Work(ms):
                self._at_work[self._count] = (process, ms)
            case Sleep(ms):
                heapq.heappush(self._later, (self.now_ms + ms, self._count, process))
            case Wait(signal):
                signal.waiting.append(process)


@dataclass(eq=False)
class Queue:
    """A bounded queue of a `World`, which records its depth over time."""

    world: World
    capacity: int
    inside: deque[int] = field(default_factory=deque)
    changed: Signal = field(default_factory=Signal)
    filled_ms: float = 0.0
    """Sum of depth × milliseconds."""
    most: int = 0
    """Max depth."""
    _seen_ms: float = 0.0

    def put(self, item: int) -> Process:
        while len(self.inside) >= self.capacity:
            yield Wait(self.changed)
        self._count()
        self.inside.append(item)
        self.most = max(self.most, len(self.inside))
        self.world.give(self.changed)

    def take(self) -> Generator[object, None, int]:
        while not self.inside:
            yield Wait(self.changed)
        self._count()
        item = self.inside.popleft()
        self.world.give(self.changed)
        return item

    def _count(self) -> None:
        self.filled_ms += len(self.inside) * (self.world.now_ms - self._seen_ms)
        self._seen_ms = self.world.now_ms


@dataclass(eq=False)
class Lock:
    """A lock with one holder at a time."""

    world: World
    is_held: bool = False
    freed: Signal = field(default_factory=Signal)

    def hold(self, ms: float) -> Process:
        while self.is_held:
            yield Wait(self.freed)
        self.is_held = True
        yield Sleep(ms)
        self.is_held = False
        self.world.give(self.freed)
