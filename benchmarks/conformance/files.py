"""Verdicts on each file, with a separate process per party."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.adapters import ReadFrames, adapter
from benchmarks.conformance.compare_frames import Outcome, Tally
from benchmarks.conformance.process import Ask, Ended, Request, answers_of, ask_worker
from benchmarks.conformance.reference import Reference, thumbnail
from benchmarks.conformance.verdict import HEADRACE, FileRow, Plan, Verdict
from benchmarks.equality import MARGIN
from benchmarks.worker import ROOT, versions
from headrace.video.frame_format import Orientation

REFERENCE = "plain decode"
"""Party and variant of the reference."""
OPEN = "open"
"""Variant of headrace for files that are not videos."""


Versions = dict[str, dict[str, str]]
"""Party → package → version."""


def judge_files(
    files: Iterable[tuple[str, Path]], plan: Plan, ask: Ask = ask_worker
) -> Iterator[tuple[FileRow, Versions]]:
    """Yield a row for each file, given by name and path, and the versions of each party."""
    for name, path in files:
        with TemporaryDirectory(prefix="conformance-") as folder:
            yield _judge(name, path.resolve(), plan, folder, ask)


def _judge(name: str, path: Path, plan: Plan, folder: str, ask: Ask) -> tuple[FileRow, Versions]:
    def asked(party: str, ways: Sequence[str]) -> Iterator[tuple[str, dict[str, Any] | Ended]]:
        # A variant ends before its process is killed, so that a large file is not a hang.
        share = 0.3 if party == REFERENCE else 0.6 / max(1, len(ways))
        limit = plan.limit_seconds
        about: dict[str, Any] = {"party": party, "path": str(path), "folder": folder}
        about |= {"plan": asdict(plan), "seconds": share * limit}
        work = f"{__name__}:answer"
        return answers_of(Request(work=work, items=ways, asked=about, limit_seconds=limit), ask)

    row: dict[str, Any] = {"name": name, "bytes": path.stat().st_size, "state": "read"}
    parties = {HEADRACE: plan.ways, **{library: ["seek"] for library in plan.libraries}}
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
        for way, answer in asked(party, ways):
            if isinstance(answer, Ended):
                verdicts.append(answer.verdict(party, way))
            else:
                verdicts.append(Verdict(**answer["verdict"]))
                row |= answer["row"]
                about[party] = answer["versions"]
    # Records have names of files without folders.
    text = FileRow(**row, verdicts=tuple(verdicts)).model_dump_json()
    for place in (f"file:{path.parent}/", f"{path.parent}/", f"{ROOT}/"):
        text = text.replace(json.dumps(place)[1:-1], "")
    return FileRow.model_validate_json(text), about


def answer(
    way: str, *, party: str, path: str, folder: str, seconds: float, plan: dict[str, Any]
) -> dict[str, Any]:
    """Return fields of the file's row, and the verdict of one variant with the versions of its
    party.

    Args:
        way: Variant of headrace; other parties have one variant.
        party: headrace, a library, or the plain decode, which runs first.
        path: The file.
        folder: Folder for this file's plain decode and index.
        seconds: Seconds after which the variant ends.
        plan: Fields of a `Plan`.
    """
    file, asked = Path(path), Plan(**{**plan, "size": tuple(plan["size"])})
    kept = Path(folder) / "reference.npz"
    if party == REFERENCE:
        from benchmarks.conformance.plain import NoVideoError, plain_decode

        try:
            reference = plain_decode(
                file, size=asked.size, most_frames=asked.most_frames, seconds=seconds
            )
        except NoVideoError as error:
            return {"row": {"state": "no video", "reason": str(error)}}
        reference.save(kept)
        return {"row": reference.facts}
    row: dict[str, int] = {}
    if party != HEADRACE:
        tally = judge_library(party, file, Reference.load(kept), asked, seconds)
        verdict = tally.verdict(party, way)
    else:
        from benchmarks.conformance.ways import Task, judge_refusal, judge_way
        from headrace.decode.index_store import IndexStore

        if way == OPEN:
            verdict = judge_refusal(file)
        else:
            store = IndexStore(Path(folder) / f"index-{way}")
            task = Task(path=file, plan=asked, seconds=seconds, store=store)
            verdict, judge = judge_way(way, task, Reference.load(kept))
            if judge is not None:
                row = {"index_frames": len(judge), "loose": judge.loose}
    about = versions(adapter(party).PACKAGES)
    return {"verdict": verdict.model_dump(), "row": row, "versions": about}


WINDOW = 12
"""Frames before and after the right one to compare with."""
LIBRARIES = ("torchcodec", "decord", "opencv")
"""Modules of `benchmarks.adapters`."""


def judge_library(
    library: str,
    path: Path,
    reference: Reference,
    plan: Plan,
    seconds: float,
    open_file: Callable[[Path], ReadFrames] | None = None,
) -> Tally:
    """Return a library's counts for random frames, for `seconds` from the first frame.

    Other scalers and matrices give other pixels, so frames are compared as thumbnails: the right
    frame must be nearer than its neighbours, as in `benchmarks.equality`.

    The time of the import and of opening the file is not limited. The library may or may not count
    frames that FFmpeg lost with a complaint.
    """
    count = len(reference)
    asked = Random(plan.seed).sample(range(count), min(plan.places, count))
    tally = Tally()
    read: ReadFrames | None = None
    ends: float | None = None
    for place in asked:
        try:
            open_file = open_file or adapter(library).reader
            read = read or open_file(path)
            [picture] = read([place])
        except Exception as error:  # noqa: BLE001
            tally.explain(f"{type(error).__name__}: {error}")
            is_told = reference.is_complained_of[place]
            tally.add("refused_with" if is_told else "refused_without", f"{place} is refused")
        else:
            other = nearest_other(reference, place, picture)
            outcome: Outcome = "right" if other is None else "wrong"
            tally.add(outcome, f"{place} is most like frame {other}")
        ends = ends or perf_counter() + seconds
        if perf_counter() > ends:
            break
    return tally


def nearest_other(reference: Reference, place: int, picture: NDArray[np.uint8]) -> int | None:
    """Return the number of the frame nearest to an image; None if it is frame `place`."""
    forms = [small := thumbnail(picture)]
    if reference.orientation != Orientation():  # not every library rotates frames correctly
        forms = [np.rot90(side, turns) for side in (small, small[:, ::-1]) for turns in range(4)]
    first = max(0, place - WINDOW)
    near = reference.thumbnails[first : place + WINDOW + 1].astype(np.float32)
    distances = np.min(
        [np.abs(near - form.astype(np.float32)).mean(axis=(1, 2, 3)) for form in forms],
        axis=0,
    )
    numbers = np.arange(first, first + len(near))
    may_be = (numbers == place) | (reference.places[numbers] == place)
    others = np.where(may_be, np.inf, distances)
    if others.min(initial=np.inf) + MARGIN < distances[may_be].min():
        return int(numbers[others.argmin()])
    return None
