"""Ray actor: runs chunks in a child process, and returns rows of results.

Decoding may crash, hang or exhaust memory, and Ray would retry it, by default without end.
Therefore it runs in a child process of the actor, and a row reports how the child ended.
"""

import importlib
import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow

from headrace.atomic_file import write_whole
from headrace.profiling.machine import versions
from headrace.records import from_dict, recorded
from headrace.runtime.child_process import CompletedChild, FunctionSpec, Json
from headrace.runtime.clock import Clock
from headrace.runtime.supervisor import PersistentChild
from headrace.runtime.worker_pool import STARTED

_TEXT = "json"


@dataclass(frozen=True, kw_only=True)
class ChunkRow:
    """Result of one chunk in one call."""

    chunk: str
    worker: str
    """Name of the worker; a restarted worker has a new one."""
    messages: tuple[Json, ...] = ()
    """Messages of the worker about the chunk, in order."""
    ending: CompletedChild | None = None
    """End of the chunk's worker, if it ended before or during the chunk."""
    unmet: str | None = None
    """Requirement that the machine does not meet."""

    @classmethod
    def lost(cls, chunk: str, worker: str) -> "ChunkRow":
        """Return the row of a chunk without result, because its worker is lost."""
        reason = "its worker was lost: its machine failed or ran out of memory"
        ending = CompletedChild(
            name=worker, exit_code=None, has_timed_out=False, seconds=0.0, tail="", error=reason
        )
        return cls(chunk=chunk, worker=worker, messages=([STARTED, chunk, None],), ending=ending)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "ChunkRow":
        """Return the row from its `asdict` as JSON values."""
        ending = plain["ending"]
        if ending is not None:  # rows hold messages by chunk
            ending = CompletedChild(**{**ending, "messages": ()})
        return cls(**{**plain, "ending": ending, "messages": tuple(plain["messages"])})


def table_of(values: Iterable[Any]) -> pyarrow.Table:
    """Return a table of JSON values, one a row."""
    return pyarrow.table({_TEXT: [json.dumps(value) for value in values]})


def values_of(table: pyarrow.Table) -> list[Any]:
    """Return the values of a table: see `table_of`."""
    return [json.loads(text) for text in table.column(_TEXT).to_pylist()]


_SEAL = "seal.txt"


@recorded
@dataclass(frozen=True, kw_only=True)
class NodeRequirements:
    """Requirements of each machine: equal versions, for equal results, and the shared folder."""

    folder: str
    """Folder of this run, shared by all machines."""
    seal: str
    """Content of a file in the folder, to identify it."""
    versions: dict[str, str]
    """Package versions by name, on the machine that started the run."""

    @classmethod
    def set_in(cls, folder: Path, clock: Clock) -> "NodeRequirements":
        """Return the requirements of a round; remove the marks of an earlier round.

        Raises:
            ConfigError: the folder cannot be written.
        """
        for path in folder.iterdir():
            path.unlink()
        seal = f"{platform.node()} {clock.now_ns()}\n"
        write_whole(folder / _SEAL, seal)
        return cls(folder=str(folder), seal=seal, versions=versions())

    def mark_of(self, chunk: str) -> Path:
        """Return the file that marks a started chunk."""
        return Path(self.folder) / f"begun-{chunk}"

    def unmet(self) -> str | None:
        """Return the first requirement that this machine does not meet, in words; None: all met."""
        here = versions()
        for name, version in self.versions.items():
            if here.get(name) != version:
                state = f"has {name} {here[name]}" if name in here else f"lacks {name}"
                return (
                    f"machine {platform.node()} {state}, but the run was started with {version}; "
                    "install the same version on all machines of the cluster"
                )
        try:
            seen = (Path(self.folder) / _SEAL).read_text(encoding="utf-8")
        except OSError:
            seen = None
        if seen != self.seal:
            return (
                f"machine {platform.node()} does not see {self.folder} of this run; give a folder "
                "with -o that all machines of the cluster share"
            )
        return None


@recorded
@dataclass(frozen=True, kw_only=True)
class ActorArgs:
    """Arguments of actors: plain values, because they are sent to other machines."""

    target: str
    """Function of the child processes, "package.module:function"; it runs `iter_rounds`."""
    argument: dict[str, Any]
    """Argument of the function."""
    alone: bool
    """Whether each chunk runs in a separate child process."""
    terms: NodeRequirements
    """Requirements of the machine."""


class ChunkActor:
    """Runs chunks: takes a table, and returns a table with a row for each chunk."""

    def __init__(self, order: str) -> None:
        """Check the requirements; the child starts with the first chunk.

        Args:
            order: `ActorArgs` as JSON.
        """
        self._order = from_dict(ActorArgs, json.loads(order), file="the order of an actor")
        self._unmet = self._order.terms.unmet()
        self._name = f"{platform.node()} {os.getpid()}"
        self._children = 0
        self._child: _Worker | None = None

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        """Run the chunks of `table`; return a table with the result of each."""
        chunks: dict[str, Json] = dict(values_of(table))
        if self._unmet is None:
            return table_of(map(asdict, self._run_chunks(chunks)))
        return table_of(
            asdict(ChunkRow(chunk=chunk, worker=self._name, unmet=self._unmet)) for chunk in chunks
        )

    def _run_chunks(self, chunks: dict[str, Json]) -> list[ChunkRow]:
        rows: dict[str, ChunkRow] = {}
        remaining = dict(chunks)
        while remaining:
            now = dict([next(iter(remaining.items()))]) if self._order.alone else remaining
            for name in now:
                self._order.terms.mark_of(name).touch()
            results, has_died = self._worker().run_chunks(now)
            started = [row for row in results if row.messages]
            # The next worker runs the chunks that this worker had not started.
            rows |= {row.chunk: row for row in (started if has_died and started else results)}
            remaining = {name: message for name, message in remaining.items() if name not in rows}
        return [rows[name] for name in chunks]

    def _worker(self) -> "_Worker":
        child = self._child
        if child is None or child.has_ended or self._order.alone:
            if child is not None:
                child.close()
            self._children += 1
            child = self._child = _Worker(self._order, f"{self._name} {self._children}", self._name)
        return child


class _Worker:
    """Child process kept between calls, and its messages."""

    def __init__(self, order: ActorArgs, name: str, known_as: str) -> None:
        module, _, function = order.target.partition(":")
        self._name = name
        self._messages: list[Json] = []
        self._child = PersistentChild(
            FunctionSpec(
                name=name,
                function=attrgetter(function)(importlib.import_module(module)),
                argument={**order.argument, "worker": known_as},
            ),
            lambda _, message: self._messages.append(message),
        )
        self.has_ended = False

    def run_chunks(self, chunks: dict[str, Json]) -> tuple[list[ChunkRow], bool]:
        """Run chunks; return a row for each, and whether the child died."""
        self._messages.clear()
        ending = self._child.run(chunks)
        self.has_ended = ending is not None
        messages_of_chunk: dict[str, list[Json]] = {name: [] for name in chunks}
        for message in self._messages:
            assert isinstance(message, list)
            messages_of_chunk[str(message[1])].append(message)
        plain = None if ending is None else replace(ending, result=None, messages=())
        rows = [
            ChunkRow(chunk=name, worker=self._name, messages=tuple(messages), ending=plain)
            for name, messages in messages_of_chunk.items()
        ]
        return rows, ending is not None and not ending.has_succeeded

    def close(self) -> None:
        """End the child."""
        self._child.close()
