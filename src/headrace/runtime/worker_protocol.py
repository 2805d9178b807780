"""What a worker is told of chunks, and says of them; the other end is `workers.py`."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.runtime.child_spec import Json
from headrace.runtime.hang_detector import end_if_stalled, may_rest
from headrace.runtime.persistent_child import fed_messages

BEGUN: Final = "begun"
READ: Final = "read"
SAID: Final = "said"
DONE: Final = "done"
"""What kind a message is: a list of kind, name of the chunk, and what is said."""


class _Voice:
    """What a worker says of all chunks it is at; each word shows that it does not hang."""

    def __init__(self, send: Callable[[Json], None], stall_seconds: float) -> None:
        self._send, self._stall_seconds = send, stall_seconds
        self._at: set[str] = set()

    def say(self, kind: str, chunk: str, said: Json = None) -> None:
        if kind == BEGUN:
            self._at.add(chunk)
        self._at -= {chunk} if kind == DONE else set()
        self.show_life()
        self._send([kind, chunk, said])

    def show_life(self) -> None:
        if self._at:
            end_if_stalled(self._stall_seconds)
        else:
            may_rest()


@dataclass(frozen=True, kw_only=True)
class ChunkReporter:
    """What a worker says of one chunk."""

    chunk: str
    told: Json
    """What workers are told of the chunk."""
    voice: _Voice

    def say(self, said: Json) -> None:
        """Say something of the chunk, to whoever watches over the workers.

        Raises:
            BrokenPipeError: nobody does any more; the worker ends. So do the others below.
        """
        self.voice.say(SAID, self.chunk, said)

    def show_life(self) -> None:
        """Show that the worker does not hang, without a word."""
        self.voice.show_life()

    def begin(self) -> None:
        """Say that it is begun: from here on a worker may die of it."""
        self.voice.say(BEGUN, self.chunk)

    def has_read(self) -> None:
        """Say that decoding it is over: what dies now more likely died of another."""
        self.voice.say(READ, self.chunk)

    def done(self) -> None:
        """Say that all of it is done."""
        self.voice.say(DONE, self.chunk)


def chunks_to_do(
    argument: Mapping[str, Json], send: Callable[[Json], None]
) -> Iterator[ChunkReporter]:
    """Yield each chunk that this worker has claimed; when it asks for the next, it is done."""
    for speaker in claimed_chunks(argument, send):
        speaker.begin()
        yield speaker
        speaker.done()


def rounds_to_do(
    argument: Mapping[str, Json], send: Callable[[Json], None]
) -> Iterator[Iterator[ChunkReporter]]:
    """Yield rounds of chunks, each of which is done before the next one is asked for.

    There is one, all that this worker can claim; or, for a `FedChild`, one for each list of chunks
    that it is fed. What is loaded stays for further ones.
    """
    if "claims" in argument:
        yield claimed_chunks(argument, send)
        return
    voice = _Voice(send, float(str(argument["stall_seconds"])))
    for chunks in fed_messages(send):
        assert isinstance(chunks, dict)
        yield (ChunkReporter(chunk=name, told=told, voice=voice) for name, told in chunks.items())


def claimed_chunks(
    argument: Mapping[str, Json], send: Callable[[Json], None]
) -> Iterator[ChunkReporter]:
    """Yield each chunk that this worker has claimed, for one that is at several at a time.

    It says of each by itself that it begins, has read, and is done.
    """
    claims, voice = (
        Path(str(argument["claims"])),
        _Voice(send, float(str(argument["stall_seconds"]))),
    )
    for chunk, told in json.loads(Path(str(argument["undone"])).read_text(encoding="utf-8")):
        if claimed(claims, chunk):
            yield ChunkReporter(chunk=chunk, told=told, voice=voice)


def claimed(claims: Path, chunk: str) -> bool:
    """Claim a chunk: true for one process only, whoever asks first."""
    try:
        os.close(os.open(claims / chunk, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True
