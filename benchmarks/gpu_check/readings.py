"""Parsers of the output of steps whose process ended as expected."""

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from benchmarks.gpu_check.overlap import overlap_in_file
from benchmarks.gpu_check.step import Ended, Reading, UnreadError
from headrace.bench.registry import BENCHMARKS
from headrace.profiling.session import Session
from headrace.profiling.trace import NAME

_APART: Final = 0.1
"""Max relative difference of a confidence from the plain run's: 16 bits have three digits."""


def last_line(ended: Ended) -> Any:
    """Return the JSON in the last line of stdout."""
    try:
        return json.loads(ended.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise UnreadError("its last line is no JSON") from error


def report(ended: Ended) -> Reading:
    """Read the output of a program of this folder: `said`, `heads` and `rows`."""
    facts = last_line(ended)
    said, heads, rows = (facts.pop(name) for name in ("said", "heads", "rows"))
    rows = tuple(tuple(map(str, row)) for row in rows)
    return Reading(said=said, heads=tuple(heads), rows=rows, found=facts)


def bench(ended: Ended, *, name: str) -> Reading:
    """Read `headrace bench NAME --json`: its answer and its table."""
    (benchmark,) = (benchmark for benchmark in BENCHMARKS if benchmark.name == name)
    try:
        record = benchmark.record.model_validate_json(ended.stdout)
    except ValueError as error:
        raise UnreadError(f"it printed no record of bench {name}") from error
    page = benchmark.page(record)
    answer, *_ = page.findings
    return Reading(said=answer.headline, heads=page.table.headers, rows=page.table.rows)


def tests(ended: Ended, *, junit: Path) -> Reading:
    """Read pytest's report: number of passed tests, reasons of skipped ones."""
    try:
        cases = list(ElementTree.parse(junit).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        raise UnreadError(f"pytest left no report: {error}") from error
    skips = [skip.get("message") or "?" for case in cases for skip in case.iter("skipped")]
    if len(skips) == len(cases):
        raise UnreadError(f"of {len(cases)} tests none was run")
    said = f"{len(cases) - len(skips)} tests passed, {len(skips)} skipped"
    rows = tuple((reason, str(count)) for reason, count in Counter(skips).most_common())
    return Reading(said=said, heads=("skipped because", "tests") if rows else (), rows=rows)


def inference(ended: Ended, *, out: Path, plain: Path | None) -> Reading:
    """Read a run: complete, with predictions equal to the `plain` run's."""
    session = _session(ended)
    predictions = _predictions(out)
    said = f"{len(predictions)} predictions, {session.wall_seconds:.2f} s"
    if plain is None:
        return Reading(said=said)
    apart = _apart(predictions, _predictions(plain))
    return Reading(said=f"{said}; confidences at most {apart:.2%} off the plain run's")


def traced(ended: Ended, *, out: Path, copies: bool) -> Reading:
    """Read a run with a trace: complete; the trace has copies if `copies`, else no copies."""
    _session(ended)
    try:
        overlap = overlap_in_file(out / NAME)
    except (OSError, ValueError) as error:
        raise UnreadError(f"it left no trace: {error}") from error
    if bool(overlap.copies) != copies:
        raise UnreadError(f"in its trace {overlap}")
    return Reading(said=str(overlap))


def training(ended: Ended, *, out: Path) -> Reading:
    """Read a training: complete, with finite losses and a head."""
    session = _session(ended)
    losses = [row.loss for row in session.steps.rows() if row.loss is not None]
    if not losses or not all(map(math.isfinite, losses)):
        raise UnreadError(f"its losses are {losses[:4]}")
    if session.training is None or not (out / (session.training.head or "-")).is_file():
        raise UnreadError("it left no head")
    return Reading(said=f"{len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}")


def refusal(ended: Ended) -> Reading:
    """Read the error line about incompatible flags."""
    lines = ended.stderr.strip().splitlines()
    if not lines or not lines[-1].startswith("headrace: ") or "Traceback" in ended.stderr:
        raise UnreadError("it does not say in a line what is wrong")
    return Reading(said=f"refused, as it should be: {lines[-1].removeprefix('headrace: ')}")


def _session(ended: Ended) -> Session:
    try:
        session = Session.model_validate_json(ended.stdout)
    except ValueError as error:
        raise UnreadError("it printed no session") from error
    if session.outcome != "complete":
        raise UnreadError(f"the run was {session.outcome}: {session.error}")
    return session


def _predictions(out: Path) -> list[dict[str, Any]]:
    try:
        lines = (out / "predictions.jsonl").read_text("utf-8").splitlines()
    except OSError as error:
        raise UnreadError(f"there are no predictions in {out.name}: {error.strerror}") from error
    predictions = [json.loads(line) for line in lines]
    if not predictions:
        raise UnreadError(f"there are no predictions in {out.name}")
    return predictions


def _apart(predictions: list[dict[str, Any]], plain: list[dict[str, Any]]) -> float:
    """Return the largest relative difference of a confidence; frames must be equal."""
    if _frames(predictions) != _frames(plain):
        raise UnreadError(f"{len(predictions)} predictions are of other frames than run:plain's")
    pairs = zip(predictions, plain, strict=True)
    apart = [abs(ours["confidence"] / theirs["confidence"] - 1) for ours, theirs in pairs]
    most = max(math.inf if math.isnan(difference) else difference for difference in apart)
    if most > _APART:
        raise UnreadError(f"a confidence is {most:.1%} off run:plain's, {_APART:.0%} is allowed")
    return most


def _frames(predictions: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(prediction["index"], prediction["pts"]) for prediction in predictions]
