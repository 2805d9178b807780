"""What goes to an actor and comes back, a row for each chunk, in columns of text.

Text, so that nothing that comes from another machine can run anything here.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.runtime.child import Ending, Json
from headrace.runtime.speaker import BEGUN

CHUNK, TOLD = "chunk", "told"


@dataclass(frozen=True, kw_only=True)
class ChunkRow:
    """What came of one chunk in one call."""

    chunk: str
    worker: str
    """Whoever did it, by name; one that was begun anew after its end has another."""
    messages: tuple[Json, ...] = ()
    """What was sent of it, in order."""
    ending: Ending | None = None
    """How the worker ended that was at it, or should have been."""
    unmet: str | None = None
    """Why the machine may not work."""

    @classmethod
    def lost(cls, chunk: str, worker: str) -> "ChunkRow":
        """Return that of a chunk of which nothing came back: whoever was at it is gone."""
        why = "its worker was lost, with its machine or because memory ran out there"
        ending = Ending(
            name=worker, exit_code=None, has_timed_out=False, seconds=0.0, tail="", error=why
        )
        return cls(chunk=chunk, worker=worker, messages=([BEGUN, chunk, None],), ending=ending)


def asked(chunks: Mapping[str, Json]) -> dict[str, list[str]]:
    """Return the columns that tell an actor of chunks, by name."""
    return {CHUNK: list(chunks), TOLD: [json.dumps(told) for told in chunks.values()]}


def chunks_of(columns: Mapping[str, list[str]]) -> dict[str, Json]:
    """Return the chunks that `columns` tell of."""
    return {
        chunk: json.loads(told) for chunk, told in zip(columns[CHUNK], columns[TOLD], strict=True)
    }


def answered(rows: list[ChunkRow]) -> dict[str, list[str]]:
    """Return the columns that tell what came of chunks, by name."""
    return {CHUNK: [row.chunk for row in rows], TOLD: [json.dumps(asdict(row)) for row in rows]}


def rows_of(columns: Mapping[str, list[str]]) -> Iterator[ChunkRow]:
    """Yield the rows that `columns` tell of."""
    for text in columns[TOLD]:
        plain: dict[str, Any] = json.loads(text)
        ending = plain.pop("ending")
        messages = tuple(plain.pop("messages"))
        if ending is not None:
            ending = Ending(**{**ending, "messages": ()})  # a row has them by chunk
        yield ChunkRow(ending=ending, messages=messages, **plain)
