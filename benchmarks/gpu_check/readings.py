"""Parsers for the output of steps whose process exited as expected."""

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

_MAX_DIFFERENCE: Final = 0.1
"""Max relative difference of a confidence from the plain run's; 16 bits have three digits."""


def report(ended: Ended) -> Reading:
    """Read the output of a program of this folder: see `print_reading`."""
    try:
        fields = json.loads(ended.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise UnreadError("the last line is not JSON") from error
    said, heads, rows = (fields.pop(name) for name in ("said", "heads", "rows"))
    rows = tuple(tuple(map(str, row)) for row in rows)
    return Reading(said=said, heads=tuple(heads), rows=rows, found=fields)


def bench(ended: Ended, *, name: str) -> Reading:
    """Read `headrace bench NAME --json`: its first finding and its table."""
    (benchmark,) = (benchmark for benchmark in BENCHMARKS if benchmark.name == name)
    try:
        record = benchmark.record.model_validate_json(ended.stdout)
    except ValueError as error:
        raise UnreadError(f"the output is not a record of bench {name}") from error
    page = benchmark.page(record)
    finding, *_ = page.findings
    return Reading(said=finding.headline, heads=page.table.headers, rows=page.table.rows)


def tests(ended: Ended, *, junit: Path) -> Reading:
    """Read pytest's report: passed tests, and skipped tests by reason."""
    try:
        cases = list(ElementTree.parse(junit).iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        raise UnreadError(f"pytest wrote no report: {error}") from error
    skips = [skip.get("message") or "?" for case in cases for skip in case.iter("skipped")]
    if len(skips) == len(cases):
        raise UnreadError(f"0 of {len(cases)} tests ran")
    said = f"{len(cases) - len(skips)} tests passed, {len(skips)} skipped"
    rows = tuple((reason, str(count)) for reason, count in Counter(skips).most_common())
    return Reading(said=said, heads=("reason of the skip", "tests") if rows else (), rows=rows)


def inference(ended: Ended, *, out: Path, plain: Path | None) -> Reading:
    """Read a run, which must be complete and predict the same as the run in `plain`."""
    session = _session(ended)
    predictions = _predictions(out)
    said = f"{len(predictions)} predictions, {session.wall_seconds:.2f} s"
    if plain is None:
        return Reading(said=said)
    difference = _max_difference(predictions, _predictions(plain))
    return Reading(said=f"{said}; confidences differ from run:plain's by at most {difference:.2%}")


def traced(ended: Ended, *, out: Path, copies: bool) -> Reading:
    """Read a run with a trace, which must be complete and have copies exactly if `copies`."""
    _session(ended)
    try:
        overlap = overlap_in_file(out / NAME)
    except (OSError, ValueError) as error:
        raise UnreadError(f"the run wrote no trace: {error}") from error
    if bool(overlap.copies) != copies:
        raise UnreadError(f"unexpected trace: {overlap}")
    return Reading(said=str(overlap))


def training(ended: Ended, *, out: Path) -> Reading:
    """Read a training, which must be complete, with finite losses and a head."""
    session = _session(ended)
    losses = [row.loss for row in session.steps.rows() if row.loss is not None]
    if not losses or not all(map(math.isfinite, losses)):
        raise UnreadError(f"the losses must be finite, got {losses[:4]}")
    if session.training is None or not (out / (session.training.head or "-")).is_file():
        raise UnreadError("the training wrote no head")
    return Reading(said=f"{len(losses)} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}")


def refusal(ended: Ended) -> Reading:
    """Read the error about incompatible flags, which must be one line."""
    lines = ended.stderr.strip().splitlines()
    if not lines or not lines[-1].startswith("headrace: ") or "Traceback" in ended.stderr:
        raise UnreadError("the last line of stderr is not an error of headrace")
    return Reading(said=f"refused as expected: {lines[-1].removeprefix('headrace: ')}")


def _session(ended: Ended) -> Session:
    try:
        session = Session.model_validate_json(ended.stdout)
    except ValueError as error:
        raise UnreadError("the output is not a session") from error
    if session.outcome != "complete":
        raise UnreadError(f"the outcome of the run is {session.outcome}: {session.error}")
    return session


def _predictions(out: Path) -> list[dict[str, Any]]:
    try:
        lines = (out / "predictions.jsonl").read_text("utf-8").splitlines()
    except OSError as error:
        raise UnreadError(f"{out.name} has no predictions: {error.strerror}") from error
    predictions = [json.loads(line) for line in lines]
    if not predictions:
        raise UnreadError(f"{out.name} has no predictions")
    return predictions


def _max_difference(predictions: list[dict[str, Any]], plain: list[dict[str, Any]]) -> float:
    """Return the largest relative difference of a confidence; frames must be equal."""
    if _frames(predictions) != _frames(plain):
        raise UnreadError("the frames of the predictions differ from run:plain's")
    pairs = zip(predictions, plain, strict=True)
    differences = [abs(ours["confidence"] / theirs["confidence"] - 1) for ours, theirs in pairs]
    largest = max(math.inf if math.isnan(d) else d for d in differences)
    if largest > _MAX_DIFFERENCE:
        raise UnreadError(
            f"a confidence differs from run:plain's by {largest:.1%}, max {_MAX_DIFFERENCE:.0%}"
        )
    return largest


def _frames(predictions: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(prediction["index"], prediction["pts"]) for prediction in predictions]
