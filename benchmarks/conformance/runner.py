"""Reads files one after the other, each party in a process of its own that may hang or crash.

A process that does not end in time is killed, by its own number; the ways that it had not begun
are asked of a new one.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Protocol

from benchmarks.conformance.verdict import HEADRACE, Ending, FileRow, Verdict
from benchmarks.conformance.worker import OPEN, REFERENCE, Extent, Request
from benchmarks.worker import ROOT

_MOST_LETTERS = 600


@dataclass(frozen=True, kw_only=True)
class Plan(Extent):
    """What is asked of every file."""

    ways: Sequence[str]
    """Of headrace."""
    libraries: Sequence[str] = ()
    worker: str = "benchmarks.conformance.worker"
    """Module that is run."""


@dataclass(eq=False)
class Ended:
    """What came of one process."""

    ending: Ending
    reason: str = ""
    begun: str | None = None
    """The way it was at when it ended."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """Of the ways that it finished."""
    versions: dict[str, str] = field(default_factory=dict)


Ask = Callable[[Request, str], Ended]
"""Request and module of the worker → what came of it."""


class Asked(Protocol):
    """A frozen dataclass that goes to a worker as JSON."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def answers(self) -> str:
        """File that the worker writes its lines to."""

    @property
    def limit_seconds(self) -> float:
        """When it is killed."""


def ask_worker(request: Asked, module: str) -> Ended:
    """Run the worker in a fresh process; it is killed when it takes longer than its limit."""
    answers = Path(request.answers)
    answers.unlink(missing_ok=True)
    errors = answers.with_suffix(".errors")
    with (
        errors.open("wb") as said,
        subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
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
    found = Ended("hang" if is_late else _ending(process.returncode))
    _read(answers, found)
    if found.ending != "done":
        found.reason = _reason(process.returncode, is_late, errors, request.limit_seconds)
    return found


def conform(
    files: Iterable[tuple[str, Path]], plan: Plan, ask: Ask = ask_worker
) -> Iterator[tuple[FileRow, dict[str, dict[str, str]]]]:
    """Yield a row for each file, given by name and path, and the versions of each party."""
    for name, path in files:
        with TemporaryDirectory(prefix="conformance-") as folder:
            yield _conform(name, path, plan, Path(folder), ask)


def _conform(
    name: str, path: Path, plan: Plan, folder: Path, ask: Ask
) -> tuple[FileRow, dict[str, dict[str, str]]]:
    def request(party: str, ways: Sequence[str]) -> Request:
        return Request(
            party=party,
            ways=tuple(ways),
            path=str(path.resolve()),
            answers=str(folder / "answers.jsonl"),
            folder=str(folder),
            **{each.name: getattr(plan, each.name) for each in fields(Extent)},
        )

    row = FileRow(name=name, bytes=path.stat().st_size, state="read")
    plain = ask(request(REFERENCE, [REFERENCE]), plan.worker)
    if plain.ending != "done":
        state = "failed" if plain.ending == "traceback" else plain.ending
        return row.model_copy(update={"state": state, "reason": plain.reason}), {}
    [answer] = plain.answers
    parties = {HEADRACE: list(plan.ways), **{each: ["seek"] for each in plan.libraries}}
    if "no_video" in answer:
        row = row.model_copy(update={"state": "no video", "reason": answer["no_video"]})
        parties = {HEADRACE: [OPEN]}
    else:
        facts = answer["facts"]
        row = FileRow(**{**row.model_dump(), **facts})
    verdicts: list[Verdict] = []
    versions: dict[str, dict[str, str]] = {}
    for party, ways in parties.items():
        left = list(ways)
        while left:
            ended = ask(request(party, left), plan.worker)
            versions[party] = ended.versions or versions.get(party, {})
            for each in ended.answers:
                verdicts.append(Verdict(**each["verdict"]))
                row = row.model_copy(update=each.get("index", {}))
            done = len(ended.answers)
            if ended.ending != "done":
                # One that ends before it has begun would do so again, and for ever.
                way = ended.begun or left[min(done, len(left) - 1)]
                verdicts.append(
                    Verdict(party=party, way=way, ending=ended.ending, reason=ended.reason)
                )
                done += 1
            left = left[done:]
    row = FileRow(**{**row.model_dump(), "verdicts": verdicts})
    # A record tells of files, not of where they lie.
    text = row.model_dump_json()
    for place in (f"file:{path.resolve().parent}/", f"{path.resolve().parent}/", f"{ROOT}/"):
        text = text.replace(json.dumps(place)[1:-1], "")
    return FileRow.model_validate_json(text), versions


def _ending(returncode: int) -> Ending:
    if returncode < 0:
        return "crash"
    return "traceback" if returncode else "done"


def _read(answers: Path, found: Ended) -> None:
    lines = answers.read_text("utf-8").splitlines() if answers.is_file() else []
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:  # it was killed while it wrote
            continue
        if "begun" in line:
            found.begun = line["begun"]
        elif "done" in line:
            found.begun = None
            found.answers.append(line)
        else:
            found.versions = line["versions"]


def _reason(returncode: int, is_late: bool, errors: Path, limit_seconds: float) -> str:
    said = errors.read_text("utf-8", "replace").strip().splitlines()
    places = [line.strip() for line in said if line.strip().startswith("File ")]
    if is_late:
        words = [f"no answer within {limit_seconds:g} seconds", *places[:2]]
    elif returncode < 0:
        words = [f"ended by {signal.Signals(-returncode).name}", *places[:2]]
    else:
        words = [said[-1] if said else f"exit status {returncode}", *places[-2:]]
    return " | ".join(words)[:_MOST_LETTERS]
