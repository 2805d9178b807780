"""What an actor does on its machine: it keeps a child at work, and tells how that came out.

Code that decodes may crash, hang or take all memory; Ray answers that by trying the same again, by
default for ever. So it runs in a child process of the actor's, and its end is a row like others.
"""

import importlib
import json
import os
import platform
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import pyarrow

from headrace.extraction.ray.rows import ChunkRow, answered, chunks_of
from headrace.extraction.ray.terms import Terms
from headrace.records import from_dict, recorded, to_dict
from headrace.runtime.child import Call, Json
from headrace.runtime.fed_child import FedChild


@recorded
@dataclass(frozen=True, kw_only=True)
class Order:
    """What actors are made for; plain values, because they come from another machine."""

    target: str
    """The function that children run, as "package.module:function"; it does `rounds_to_do`."""
    argument: dict[str, Any]
    """Given to it."""
    alone: bool
    """Whether each chunk has a child of its own."""
    terms: Terms
    """What must hold on the machine."""

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(to_dict(self))

    @classmethod
    def parse(cls, text: str) -> "Order":
        """Return what `text` was made of."""
        return from_dict(cls, json.loads(text), file="the order of an actor")


class ChunkActor:
    """Does chunks: one table in, one out, with a row for each chunk of it."""

    def __init__(self, order: str) -> None:
        """See whether this machine may work; the child begins with the first chunk."""
        self._order = Order.parse(order)
        self._unmet = self._order.terms.unmet()
        self._name = f"{platform.node()} {os.getpid()}"
        self._children = 0
        self._child: _Worker | None = None

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        """Do the chunks of `table`; return what came of each, one row for each of its rows."""
        chunks = chunks_of(table.to_pydict())
        rows = self._refused(chunks) if self._unmet else self._done(chunks)
        return pyarrow.table(answered(rows))

    def _refused(self, chunks: dict[str, Json]) -> list[ChunkRow]:
        return [ChunkRow(chunk=each, worker=self._name, unmet=self._unmet) for each in chunks]

    def _done(self, chunks: dict[str, Json]) -> list[ChunkRow]:
        rows: dict[str, ChunkRow] = {}
        left = dict(chunks)
        while left:
            now = dict([next(iter(left.items()))]) if self._order.alone else left
            for name in now:
                self._order.terms.mark_of(name).touch()
            came, has_died = self._worker().do(now)
            begun = [row for row in came if row.messages]
            # What was not begun when its worker died is done by the next one.
            rows |= {row.chunk: row for row in (begun if has_died and begun else came)}
            left = {name: told for name, told in left.items() if name not in rows}
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
    """A child that lives from call to call, and what it says."""

    def __init__(self, order: Order, name: str, known_as: str) -> None:
        module, _, function = order.target.partition(":")
        self._name = name
        self._heard: list[Json] = []
        self._child = FedChild(
            Call(
                name=name,
                function=attrgetter(function)(importlib.import_module(module)),
                argument={**order.argument, "worker": known_as},
            ),
            lambda _, message: self._heard.append(message),
        )
        self.has_ended = False

    def do(self, chunks: dict[str, Json]) -> tuple[list[ChunkRow], bool]:
        """Have it do chunks; return a row for each, and whether it died of them."""
        self._heard.clear()
        ending = self._child.do(chunks)
        self.has_ended = ending is not None
        said: dict[str, list[Json]] = {name: [] for name in chunks}
        for message in self._heard:
            assert isinstance(message, list)
            said[str(message[1])].append(message)
        plain = None if ending is None else replace(ending, result=None, messages=())
        rows = [
            ChunkRow(chunk=name, worker=self._name, messages=tuple(messages), ending=plain)
            for name, messages in said.items()
        ]
        return rows, ending is not None and not ending.is_good

    def close(self) -> None:
        """End it."""
        self._child.close()
