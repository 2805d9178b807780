"""Where processes meet before they begin: each says that it is ready, and all go on at one moment.

All of it goes through files in one folder, because a program may stand between the two processes,
such as a profiler, that hands on no pipe.
"""

import json
from pathlib import Path
from typing import Final

import psutil

from headrace.errors import ConfigError, file_errors
from headrace.runtime.child import Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.waiter import Waiter

_GATE: Final = "begin.json"
_LOOK_SECONDS: Final = 0.02
AHEAD_SECONDS: Final = 0.25
"""From the opening to the moment all go on: enough for all of them to have seen it."""


class Rendezvous:
    """The place, for who waits for the others to come: hears them, and opens. Not thread-safe."""

    def __init__(self, folder: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        """Nobody is there yet.

        Args:
            folder: An empty folder of its own, whose owner deletes it.
            clock: One that other processes of this machine read the same.
        """
        self._folder = folder
        self._clock = clock
        self._read: dict[str, int] = {}

    def address(self, name: str) -> str:
        """Return what a `Participant` takes: the place of one of those who come."""
        return json.dumps([str(self._folder), name, psutil.Process().pid])

    def hear(self) -> list[tuple[str, Json]]:
        """Return what each has told since the last time, as (name, message), in its own order."""
        found: list[tuple[str, Json]] = []
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path.stem, 0))
                whole, end, _ = file.read().rpartition(b"\n")
            self._read[path.stem] = self._read.get(path.stem, 0) + len(whole + end)
            found += [(path.stem, json.loads(line)) for line in whole.splitlines()]
        return found

    def open(self) -> int:
        """Let all who wait go on, at the moment returned: nanoseconds of the clock."""
        moment_ns = self._clock.now_ns() + round(AHEAD_SECONDS * 1e9)
        partial = self._folder / f".{_GATE}"
        partial.write_text(json.dumps(moment_ns), encoding="utf-8")
        partial.replace(self._folder / _GATE)
        return moment_ns


class Participant:
    """One of those who come, in its own process. Not thread-safe."""

    def __init__(self, address: str, clock: Clock = SYSTEM_CLOCK) -> None:
        """Comes to the place that `Rendezvous.address` gave; the clock is of the same kind."""
        folder, name, host = json.loads(address)
        self._gate = Path(folder) / _GATE
        self._file = Path(folder) / f"{name}.jsonl"
        self._host = int(host)
        self._clock = clock

    def tell(self, message: Json) -> None:
        """Say something to who waits for all.

        Raises:
            ConfigError: the place is gone, or cannot be written to.
        """
        with (
            file_errors(f"cannot tell the launch by {self._file}", "launch it again"),
            self._file.open("a", encoding="utf-8") as file,
        ):
            file.write(json.dumps(message) + "\n")

    def wait(self) -> int:
        """Wait until all go on; return when that was, in nanoseconds of the clock.

        Raises:
            ConfigError: who would open it is gone.
        """
        waiter = Waiter(self._clock)
        while not self._gate.exists():
            if not psutil.pid_exists(self._host):
                raise ConfigError("the launch ended before its workers began; launch them again")
            waiter.pause(_LOOK_SECONDS)
        waiter.until(json.loads(self._gate.read_text(encoding="utf-8")))
        return self._clock.now_ns()
