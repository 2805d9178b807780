"""One party on one file in its own process: a request on stdin, lines of JSON into a file.

{"party": "headrace", "ways": ["seek", ...], "path": ..., "reference": ..., "answers": ..., ...}

Each line says what is begun, or what came out of it; so that whoever ends a process that hangs,
or finds it dead, knows where.
"""

import faulthandler
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.conformance.libs import adapter, judge_library
from benchmarks.conformance.reference import Reference
from benchmarks.resources import versions

REFERENCE = "plain decode"
"""The party, and its way, that all are held against."""
OPEN = "open"
"""The way in which headrace is shown what is no video."""
_SHARE = {REFERENCE: 0.3}
"""Of the time limit after which a way ends by itself; the others share what is left."""


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much of each file is read."""

    places: int = 6
    planned: int = 250
    seed: int = 0
    size: tuple[int, int] = (64, 64)
    most_frames: int = 2000
    limit_seconds: float = 120
    """When a process is ended from outside."""


@dataclass(frozen=True, kw_only=True)
class Request(Extent):
    """What a process is asked for."""

    party: str
    ways: Sequence[str]
    path: str
    answers: str
    """File that the lines go to."""
    folder: str
    """For this file alone: its plain decode, its index."""

    @property
    def reference(self) -> Path:
        """Where the plain decode is kept."""
        return Path(self.folder) / "reference.npz"

    @property
    def way_seconds(self) -> float:
        """After which each way ends by itself, so that a large file is not taken for a hang."""
        return self.limit_seconds * (_SHARE.get(self.party) or 0.6 / max(1, len(self.ways)))


def main() -> None:
    """Do all ways that were asked for, one after the other."""
    faulthandler.enable()
    asked = json.load(sys.stdin)
    request = Request(**{**asked, "size": tuple(asked["size"])})
    faulthandler.dump_traceback_later(request.limit_seconds * 0.95)
    with Path(request.answers).open("a", encoding="utf-8") as answers:

        def say(line: dict[str, Any]) -> None:
            answers.write(json.dumps(line) + "\n")
            answers.flush()

        for way in request.ways:
            say({"begun": way})
            say({"done": way, **_do(request, way)})
        packages = () if request.party == REFERENCE else adapter(request.party).PACKAGES
        say({"versions": versions(packages)})
    faulthandler.cancel_dump_traceback_later()


def _do(request: Request, way: str) -> dict[str, Any]:
    if request.party == REFERENCE:
        return _plain(request)
    if request.party == "headrace":
        return _headrace(request, way)
    tally = judge_library(
        request.party,
        Path(request.path),
        Reference.load(request.reference),
        places=request.places,
        seed=request.seed,
        seconds=request.way_seconds,
    )
    return {"verdict": {"party": request.party, "way": way, **vars(tally)}}


def _plain(request: Request) -> dict[str, Any]:
    from benchmarks.conformance.plain import NoVideoError, plain_decode

    try:
        reference, facts = plain_decode(
            Path(request.path),
            size=request.size,
            most_frames=request.most_frames,
            seconds=request.way_seconds,
        )
    except NoVideoError as error:
        return {"no_video": str(error)}
    reference.save(request.reference)
    found = {
        "frames": len(reference),
        "is_whole": reference.is_whole,
        "has_one_size": reference.has_one_size,
        "complaints": len(reference.complaints),
        "lines": reference.lines,
    }
    return {"facts": {**asdict(facts), **found}}


def _headrace(request: Request, way: str) -> dict[str, Any]:
    from benchmarks.conformance.ways import Task, judge_refusal, judge_way
    from headrace.decode.index_store import IndexStore

    path = Path(request.path)
    if way == OPEN:
        return {"verdict": judge_refusal(path).model_dump()}
    task = Task(
        path=path,
        size=request.size,
        places=request.places,
        planned=request.planned,
        seed=request.seed,
        seconds=request.way_seconds,
        store=IndexStore(Path(request.folder) / f"index-{way}"),
    )
    verdict, judge = judge_way(way, task, Reference.load(request.reference))
    answer: dict[str, Any] = {"verdict": verdict.model_dump()}
    if judge is not None:
        answer["index"] = {"index_frames": len(judge), "loose": judge.alignment.loose}
    return answer


if __name__ == "__main__":
    main()
