"""One file after the other: what all parties make of it, each in a process of its own."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.conformance.libs import adapter, judge_library
from benchmarks.conformance.process import Ask, Ended, Request, answers_of, ask_worker
from benchmarks.conformance.reference import Reference
from benchmarks.conformance.verdict import HEADRACE, FileRow, Verdict
from benchmarks.resources import versions
from benchmarks.worker import ROOT

REFERENCE = "plain decode"
"""The party, and its way, that all are held against."""
OPEN = "open"
"""The way in which headrace is shown what is no video."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is asked of every file."""

    places: int = 6
    planned: int = 250
    seed: int = 0
    size: tuple[int, int] = (64, 64)
    most_frames: int = 2000
    limit_seconds: float = 120
    """When a process is ended from outside."""
    ways: Sequence[str]
    """Of headrace."""
    libraries: Sequence[str] = ()


Versions = dict[str, dict[str, str]]
"""Party → package → version."""


def conform(
    files: Iterable[tuple[str, Path]], plan: Plan, ask: Ask = ask_worker
) -> Iterator[tuple[FileRow, Versions]]:
    """Yield a row for each file, given by name and path, and the versions of each party."""
    for name, path in files:
        with TemporaryDirectory(prefix="conformance-") as folder:
            yield _conform(name, path.resolve(), plan, folder, ask)


def _conform(name: str, path: Path, plan: Plan, folder: str, ask: Ask) -> tuple[FileRow, Versions]:
    def asked(party: str, ways: Sequence[str]) -> Iterator[tuple[str, dict[str, Any] | Ended]]:
        # A way ends by itself before its process is ended: a large file is no hang.
        share = 0.3 if party == REFERENCE else 0.6 / max(1, len(ways))
        extent = {each: getattr(plan, each) for each in ("places", "planned", "seed", "size")}
        request = Request(
            work=f"{__name__}:answer",
            items=ways,
            asked={
                **{"party": party, "path": str(path), "folder": folder, **extent},
                **{"most_frames": plan.most_frames, "seconds": share * plan.limit_seconds},
            },
            limit_seconds=plan.limit_seconds,
        )
        return answers_of(request, ask)

    row: dict[str, Any] = {"name": name, "bytes": path.stat().st_size, "state": "read"}
    parties = {HEADRACE: plan.ways, **{each: ["seek"] for each in plan.libraries}}
    *_, (_, plain) = asked(REFERENCE, [REFERENCE])
    if isinstance(plain, Ended):
        state = "failed" if plain.ending == "traceback" else plain.ending
        row |= {"state": state, "reason": plain.reason}
        parties = {}
    else:
        row |= plain["row"]
        if row["state"] == "no video":
            parties = {HEADRACE: [OPEN]}
    verdicts: list[Verdict] = []
    about: Versions = {}
    for party, ways in parties.items():
        for way, found in asked(party, ways):
            if isinstance(found, Ended):
                verdicts.append(found.verdict(party, way))
            else:
                verdicts.append(Verdict(**found["verdict"]))
                row |= found["row"]
                about[party] = found["versions"]
    # A record names files, not the places where they lie.
    text = FileRow(**row, verdicts=tuple(verdicts)).model_dump_json()
    for place in (f"file:{path.parent}/", f"{path.parent}/", f"{ROOT}/"):
        text = text.replace(json.dumps(place)[1:-1], "")
    return FileRow.model_validate_json(text), about


def answer(
    way: str,
    *,
    party: str,
    path: str,
    folder: str,
    size: Sequence[int],
    most_frames: int,
    seconds: float,
    **extent: int,
) -> dict[str, Any]:
    """Return fields of the file's row, and the verdict of one way with the versions of its party.

    Args:
        way: Of headrace; others have one.
        party: headrace, a library, or the plain decode, which goes first.
        path: The file.
        folder: For this file alone: its plain decode, its index.
        size: Of the small pictures.
        most_frames: That are decoded plainly.
        seconds: After which the way ends by itself.
        extent: Fields of a `Task`.
    """
    file, small = Path(path), (size[0], size[1])
    kept = Path(folder) / "reference.npz"
    if party == REFERENCE:
        from benchmarks.conformance.plain import NoVideoError, plain_decode

        try:
            reference = plain_decode(file, size=small, most_frames=most_frames, seconds=seconds)
        except NoVideoError as error:
            return {"row": {"state": "no video", "reason": str(error)}}
        reference.save(kept)
        return {"row": reference.facts}
    row: dict[str, int] = {}
    if party != HEADRACE:
        tally = judge_library(
            party,
            file,
            Reference.load(kept),
            places=extent["places"],
            seed=extent["seed"],
            seconds=seconds,
        )
        verdict = tally.verdict(party, way)
    else:
        from benchmarks.conformance.ways import Task, judge_refusal, judge_way
        from headrace.decode.index_store import IndexStore

        if way == OPEN:
            verdict = judge_refusal(file)
        else:
            store = IndexStore(Path(folder) / f"index-{way}")
            task = Task(path=file, size=small, seconds=seconds, store=store, **extent)
            verdict, judge = judge_way(way, task, Reference.load(kept))
            if judge is not None:
                row = {"index_frames": len(judge), "loose": judge.loose}
    about = versions(adapter(party).PACKAGES)
    return {"verdict": verdict.model_dump(), "row": row, "versions": about}
