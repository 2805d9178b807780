"""Child process that processes items one by one and may hang or crash.

Each answer is sent at once. So if the process is killed or crashes, the item after the last answer
is the cause.
"""

import faulthandler
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pkgutil import resolve_name
from typing import Any

from benchmarks.conformance.verdict import Ending, Verdict
from headrace.errors import in_one_line
from headrace.runtime.child_process import FunctionSpec, Json
from headrace.runtime.supervisor import run_children

_MAX_REASON = 600
"""Max characters of a reason."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Request for a process."""

    work: str
    """`module:function` that takes an item and the options, and returns JSON values."""
    items: Sequence[Any]
    options: Mapping[str, Any]
    """Options by name, the same for every item."""
    limit_seconds: float
    """Time limit of the process."""


@dataclass(eq=False)
class Ended:
    """Result of one process."""

    ending: Ending
    reason: str = ""
    answers: list[Any] = field(default_factory=list)
    """Answers of the finished items, in order."""

    def verdict(self, party: str, way: str) -> Verdict:
        """Return the verdict of a variant that did not answer."""
        return Verdict(party=party, way=way, ending=self.ending, reason=self.reason)


Ask = Callable[[Request], Ended]


def ask_worker(request: Request) -> Ended:
    """Run a new process, which is killed at its limit."""
    limit, argument = request.limit_seconds, asdict(request)
    call = FunctionSpec(
        name="worker", function=answer_items, argument=argument, timeout_seconds=limit
    )
    [child] = run_children([call], grace_seconds=1.0)
    answers, status = list(child.messages), child.exit_code or 0
    if child.has_succeeded:
        return Ended("done", answers=answers)
    lines = [line.strip() for line in child.tail.splitlines()]
    places = [line for line in lines if line.startswith("File ")]
    ending: Ending = "traceback"
    if child.has_timed_out:
        ending = "hang"
        words = [f"no answer within {limit:g} seconds", *places[:2]]
    elif status < 0:
        ending = "crash"
        words = [f"killed by {signal.Signals(-status).name}", *places[:2]]
    else:
        words = [in_one_line(child.error or f"exit status {status}"), *places[-2:]]
    return Ended(ending, " | ".join(words)[:_MAX_REASON], answers)


def answers_of(
    request: Request, ask: Ask = ask_worker
) -> Iterator[tuple[Any, dict[str, Any] | Ended]]:
    """Yield every item with its answer, or with the result of the process that it ended.

    The items after it are sent to a new process.
    """
    left = list(request.items)
    while left:
        ended = ask(replace(request, items=left))
        yield from zip(left, ended.answers, strict=False)
        left = left[len(ended.answers) :]
        if ended.ending != "done":
            # An item is not repeated, because it may end every process.
            yield left.pop(0) if left else request.items[-1], ended


def answer_items(order: Any, send: Callable[[Json], None]) -> None:
    """Send the answer of each item; `order` has the fields of a `Request`."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(order["limit_seconds"] * 0.95)
    work = resolve_name(order["work"])
    for item in order["items"]:
        send(work(item, **order["options"]))
    faulthandler.cancel_dump_traceback_later()
