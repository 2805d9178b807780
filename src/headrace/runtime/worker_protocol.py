"""Worker end of the chunk protocol; `worker_pool.py` is the supervisor end."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.runtime.child_spec import Json
from headrace.runtime.hang_detector import arm_watchdog, disarm_watchdog
from headrace.runtime.supervisor import iter_messages

STARTED: Final = "begun"
DECODED: Final = "read"
MESSAGE: Final = "said"
DONE: Final = "done"
"""Kinds of messages; a message is a list of kind, chunk name and payload."""


class _Connection:
    """Sends the messages of a worker about its chunks; each one resets the hang watchdog."""

    def __init__(self, send: Callable[[Json], None], stall_seconds: float) -> None:
        self._send, self._stall_seconds = send, stall_seconds
        self._in_work: set[str] = set()

    def send(self, kind: str, chunk: str, payload: Json = None) -> None:
        if kind == STARTED:
            self._in_work.add(chunk)
        elif kind == DONE:
            self._in_work.discard(chunk)
        self.heartbeat()
        self._send([kind, chunk, payload])

    def heartbeat(self) -> None:
        if self._in_work:
            arm_watchdog(self._stall_seconds)
        else:
            disarm_watchdog()


@dataclass(frozen=True, kw_only=True)
class ChunkReporter:
    """A claimed chunk, with messages to the supervisor.

    Sending raises BrokenPipeError if the supervisor has ended; then the worker ends.
    """

    chunk: str
    payload: Json
    """Payload of the chunk from the supervisor."""
    connection: _Connection

    def send(self, message: Json) -> None:
        """Send a message about the chunk to the supervisor."""
        self.connection.send(MESSAGE, self.chunk, message)

    def heartbeat(self) -> None:
        """Reset the hang watchdog without a message."""
        self.connection.heartbeat()

    def report_started(self) -> None:
        """Report the start of work; from now on the chunk is a suspect if the worker dies."""
        self.connection.send(STARTED, self.chunk)

    def report_decoded(self) -> None:
        """Report that the chunk is decoded; chunks still being decoded are likelier suspects."""
        self.connection.send(DECODED, self.chunk)

    def report_done(self) -> None:
        """Report that the chunk is done."""
        self.connection.send(DONE, self.chunk)


def iter_chunks(
    argument: Mapping[str, Json], send: Callable[[Json], None]
) -> Iterator[ChunkReporter]:
    """Yield each chunk that this worker claims, as started; it is done when the next is taken."""
    for reporter in iter_claimed_chunks(argument, send):
        reporter.report_started()
        yield reporter
        reporter.report_done()


def iter_rounds(
    argument: Mapping[str, Json], send: Callable[[Json], None]
) -> Iterator[Iterator[ChunkReporter]]:
    """Yield rounds of chunks; a round is done when the next one is taken.

    There is one round of all chunks that this worker can claim; or, in a `PersistentChild`, a round
    per job, which maps chunk names to payloads. Loaded resources stay for later rounds.
    """
    if "claims" in argument:
        yield iter_claimed_chunks(argument, send)
        return
    connection = _Connection(send, float(str(argument["stall_seconds"])))
    for chunks in iter_messages(send):
        assert isinstance(chunks, dict)
        yield (
            ChunkReporter(chunk=name, payload=payload, connection=connection)
            for name, payload in chunks.items()
        )


def iter_claimed_chunks(
    argument: Mapping[str, Json], send: Callable[[Json], None]
) -> Iterator[ChunkReporter]:
    """Yield each chunk that this worker claims, for workers with several chunks in work.

    The worker must report each chunk as started, decoded and done.
    """
    claims = Path(str(argument["claims"]))
    connection = _Connection(send, float(str(argument["stall_seconds"])))
    for chunk, payload in json.loads(Path(str(argument["undone"])).read_text(encoding="utf-8")):
        if claim_chunk(claims, chunk):
            yield ChunkReporter(chunk=chunk, payload=payload, connection=connection)


def claim_chunk(claims: Path, chunk: str) -> bool:
    """Claim a chunk; return True in the first process only."""
    try:
        os.close(os.open(claims / chunk, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True
