"""Verdicts on each file; each party runs in its own process."""

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
from benchmarks.worker import ROOT
from benchmarks.worker import versions as versions_of
from headrace.video.frame_format import Orientation

REFERENCE = "plain decode"
"""Party and variant that produce the reference."""
OPEN = "open"
"""Variant of headrace for files that are not videos."""


Versions = dict[str, dict[str, str]]
"""Party → package → version."""


def judge_files(
    files: Iterable[tuple[str, Path]], plan: Plan, ask: Ask = ask_worker
) -> Iterator[tuple[FileRow, Versions]]:
    """Yield the row of each file (name and path), and the versions of each party."""
    for name, path in files:
        with TemporaryDirectory(prefix="conformance-") as folder:
            yield _judge(name, path.resolve(), plan, folder, ask)


def _judge(name: str, path: Path, plan: Plan, folder: str, ask: Ask) -> tuple[FileRow, Versions]:
    def answers(party: str, ways: Sequence[str]) -> Iterator[tuple[str, dict[str, Any] | Ended]]:
        # A variant stops before its process is killed, so that a large file is not a hang.
        share = 0.3 if party == REFERENCE else 0.6 / max(1, len(ways))
        limit = plan.limit_seconds
        options: dict[str, Any] = {"party": party, "path": str(path), "folder": folder}
        options |= {"plan": asdict(plan), "seconds": share * limit}
        work = f"{__name__}:answer"
        return answers_of(Request(work=work, items=ways, options=options, limit_seconds=limit), ask)

    row: dict[str, Any] = {"name": name, "bytes": path.stat().st_size, "state": "read"}
    parties = {HEADRACE: plan.ways, **{library: ["seek"] for library in plan.libraries}}
    *_, (_, plain) = answers(REFERENCE, [REFERENCE])
    if isinstance(plain, Ended):
        state = "failed" if plain.ending == "traceback" else plain.ending
        row |= {"state": state, "reason": plain.reason}
        parties = {}
    else:
        row |= plain["row"]
        if row["state"] == "no video":
            parties = {HEADRACE: [OPEN]}
    verdicts: list[Verdict] = []
    versions: Versions = {}
    for party, ways in parties.items():
        for way, answer in answers(party, ways):
            if isinstance(answer, Ended):
                verdicts.append(answer.verdict(party, way))
            else:
                verdicts.append(Verdict(**answer["verdict"]))
                row |= answer["row"]
                versions[party] = answer["versions"]
    # Results have names of files without folders.
    text = FileRow(**row, verdicts=tuple(verdicts)).model_dump_json()
    for prefix in (f"file:{path.parent}/", f"{path.parent}/", f"{ROOT}/"):
        text = text.replace(json.dumps(prefix)[1:-1], "")
    return FileRow.model_validate_json(text), versions


def answer(
    way: str, *, party: str, path: str, folder: str, seconds: float, plan: dict[str, Any]
) -> dict[str, Any]:
    """Return fields of the file's row, the verdict on one variant, and the versions of its party.

    Args:
        way: Variant of headrace; other parties have one variant.
        party: headrace, a library, or the plain decode, which runs first.
        path: Path of the file.
        folder: Folder for the plain decode and the indexes of this file.
        seconds: Time limit of the variant.
        plan: Fields of a `Plan`.
    """
    file, settings = Path(path), Plan(**{**plan, "size": tuple(plan["size"])})
    reference_path = Path(folder) / "reference.npz"
    if party == REFERENCE:
        from benchmarks.conformance.plain import NoVideoError, plain_decode

        try:
            reference = plain_decode(
                file, size=settings.size, most_frames=settings.most_frames, seconds=seconds
            )
        except NoVideoError as error:
            return {"row": {"state": "no video", "reason": str(error)}}
        reference.save(reference_path)
        return {"row": reference.facts}
    row: dict[str, int] = {}
    if party != HEADRACE:
        tally = judge_library(party, file, Reference.load(reference_path), settings, seconds)
        verdict = tally.verdict(party, way)
    else:
        from benchmarks.conformance.ways import Task, judge_refusal, judge_way
        from headrace.decode.index_store import IndexStore

        if way == OPEN:
            verdict = judge_refusal(file)
        else:
            store = IndexStore(Path(folder) / f"index-{way}")
            task = Task(path=file, plan=settings, seconds=seconds, store=store)
            verdict, judge = judge_way(way, task, Reference.load(reference_path))
            if judge is not None:
                row = {"index_frames": len(judge), "loose": judge.loose}
    packages = adapter(party).PACKAGES
    return {"verdict": verdict.model_dump(), "row": row, "versions": versions_of(packages)}


WINDOW = 12
"""Frames before and after the right frame that are compared, too."""
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
    """Return the outcomes of random frames by a library.

    Scalers and color matrices differ between libraries, so frames are compared as thumbnails: the
    right frame must be nearer than its neighbors, as in `benchmarks.equality`. A library may or may
    not count frames that FFmpeg lost with a complaint.

    The limit of `seconds` starts after the first frame, so that it excludes the import of the
    library and the opening of the file.
    """
    count = len(reference)
    tally = Tally()
    read: ReadFrames | None = None
    deadline: float | None = None
    for place in Random(plan.seed).sample(range(count), min(plan.places, count)):
        try:
            open_file = open_file or adapter(library).reader
            read = read or open_file(path)
            [picture] = read([place])
        except Exception as error:  # noqa: BLE001
            tally.explain(f"{type(error).__name__}: {error}")
            is_excused = reference.is_complained_of[place]
            tally.add("refused_with" if is_excused else "refused_without", f"{place} is refused")
        else:
            other = nearest_other(reference, place, picture)
            outcome: Outcome = "right" if other is None else "wrong"
            tally.add(outcome, f"{place} is most like frame {other}")
        deadline = deadline or perf_counter() + seconds
        if perf_counter() > deadline:
            break
    return tally


def nearest_other(reference: Reference, place: int, picture: NDArray[np.uint8]) -> int | None:
    """Return the number of the frame most similar to an image; None if it is frame `place`."""
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
