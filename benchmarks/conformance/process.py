"""Work that may hang or crash, item by item in a process of its own.

For every item the process sends an answer at once. So where it is killed, as it does not end in
time, or dies, the item behind the last answer is to blame.
"""

import faulthandler
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pkgutil import resolve_name
from typing import Any

from benchmarks.conformance.verdict import Ending, Verdict
from headrace.errors import in_one_line
from headrace.runtime.child_spec import FunctionSpec, Json
from headrace.runtime.supervisor import run_children

_MOST_LETTERS = 600


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a process is asked for."""

    work: str
    """`module:function`: it takes an item and what is asked, and returns what JSON can hold."""
    items: Sequence[Any]
    asked: Mapping[str, Any]
    """By name, with every item."""
    limit_seconds: float
    """When the process is killed."""


@dataclass(eq=False)
class Ended:
    """What came of one process."""

    ending: Ending
    reason: str = ""
    answers: list[Any] = field(default_factory=list)
    """Of the items that it finished, in their order."""

    def verdict(self, party: str, way: str) -> Verdict:
        """Return that of a way which came to no answer."""
        return Verdict(party=party, way=way, ending=self.ending, reason=self.reason)


Ask = Callable[[Request], Ended]


def ask_worker(request: Request) -> Ended:
    """Run a fresh process; it is killed when it takes longer than its limit."""
    call = FunctionSpec(
        name="worker",
        function=answer_items,
        argument=asdict(request),
        timeout_seconds=request.limit_seconds,
    )
    [child] = run_children([call], grace_seconds=1.0)
    found, status = list(child.messages), child.exit_code or 0
    if child.has_succeeded:
        return Ended("done", answers=found)
    lines = [line.strip() for line in child.tail.splitlines()]
    places = [line for line in lines if line.startswith("File ")]
    ending: Ending = "traceback"
    if child.has_timed_out:
        ending = "hang"
        words = [f"no answer within {request.limit_seconds:g} seconds", *places[:2]]
    elif status < 0:
        ending = "crash"
        words = [f"ended by {signal.Signals(-status).name}", *places[:2]]
    else:
        words = [in_one_line(child.error or f"exit status {status}"), *places[-2:]]
    return Ended(ending, " | ".join(words)[:_MOST_LETTERS], found)


def answers_of(
    request: Request, ask: Ask = ask_worker
) -> Iterator[tuple[Any, dict[str, Any] | Ended]]:
    """Yield every item with its answer, or with the end of the process that came to none.

    What stands behind that item is asked of a new process.
    """
    left = list(request.items)
    while left:
        ended = ask(replace(request, items=left))
        yield from zip(left, ended.answers, strict=False)
        left = left[len(ended.answers) :]
        if ended.ending != "done":
            # Left out, it would be asked again for ever where it ends before it has begun.
            yield left.pop(0) if left else request.items[-1], ended


def answer_items(order: Any, send: Callable[[Json], None]) -> None:
    """Do the work of all items, one after the other; `order` is a request."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(order["limit_seconds"] * 0.95)
    work = resolve_name(order["work"])
    for item in order["items"]:
        send(work(item, **order["asked"]))
    faulthandler.cancel_dump_traceback_later()
