"""Work that may hang or crash, item by item in a process of its own: both ends of the protocol.

{"work": "benchmarks.conformance.files:answer", "items": ["seek", ...], "asked": {...}, ...}

The request comes on stdin; for every item the process writes a line of JSON into a file. So where
it is killed, as it does not end in time, or dies, the item behind the last line is to blame.
"""

import faulthandler
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from benchmarks.worker import ROOT

_MOST_LETTERS = 600
Ending = Literal["done", "traceback", "hang", "crash"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a process is asked for."""

    work: str
    """`module:function`: it takes an item and what is asked, and returns what JSON can hold."""
    items: Sequence[Any]
    asked: Mapping[str, Any]
    """By name, with every item."""
    answers: str
    """File that the lines go to."""
    limit_seconds: float
    """When the process is killed."""


@dataclass(eq=False)
class Ended:
    """What came of one process."""

    ending: Ending
    reason: str = ""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """Of the items that it finished, in their order."""


Ask = Callable[[Request], Ended]


def ask_worker(request: Request) -> Ended:
    """Run a fresh process; it is killed when it takes longer than its limit."""
    answers = Path(request.answers)
    answers.unlink(missing_ok=True)
    errors = answers.with_suffix(".errors")
    with (
        errors.open("wb") as printed,
        subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=printed,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is for this process, which then ends that one
        ) as process,
    ):
        try:
            process.communicate(json.dumps(asdict(request)).encode(), request.limit_seconds)
            is_late = False
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            process.kill()
    status = process.returncode
    lines = answers.read_text("utf-8").splitlines(keepends=True) if answers.is_file() else []
    # The last line is not whole where it was killed while it wrote.
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    if not is_late and not status:
        return Ended("done", answers=found)
    ending: Ending = "hang" if is_late else "crash" if status < 0 else "traceback"
    log = errors.read_text("utf-8", "replace").strip().splitlines()
    places = [line.strip() for line in log if line.strip().startswith("File ")]
    if is_late:
        words = [f"no answer within {request.limit_seconds:g} seconds", *places[:2]]
    elif status < 0:
        words = [f"ended by {signal.Signals(-status).name}", *places[:2]]
    else:
        words = [log[-1] if log else f"exit status {status}", *places[-2:]]
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


def main() -> None:
    """Do the work of all items, one after the other."""
    faulthandler.enable()
    request = Request(**json.load(sys.stdin))
    faulthandler.dump_traceback_later(request.limit_seconds * 0.95)
    module, _, name = request.work.partition(":")
    work = getattr(import_module(module), name)
    with Path(request.answers).open("a", encoding="utf-8") as answers:
        for item in request.items:
            print(json.dumps(work(item, **request.asked)), file=answers, flush=True)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
