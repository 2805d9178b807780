"""A survey as one JSON document: its findings and its files, for programs."""

import json
from pathlib import Path
from typing import Any

from headrace.bench.suite.conclusion import verdict
from headrace.bench.suite.ranking import Judged, Judgement


def survey_json(judgement: Judgement, folder: Path, files: dict[str, Path]) -> str:
    """Return the findings, the costliest first, and where the files in `folder` lie."""
    found, work = verdict(judgement), judgement.work
    document = {
        "verdict": found.headline,
        "evidence": list(found.evidence),
        "work_ms": {role: stage.ms for role, stage in work.stages.items()} if work else None,
        "findings": [_finding(each, folder) for each in judgement.judged],
        "files": {name: str(path) for name, path in files.items()},
    }
    return json.dumps(document)


def _finding(judged: Judged, folder: Path) -> dict[str, Any]:
    chapter, advice, finding = judged.chapter, judged.advice, judged.finding
    found: dict[str, Any] = {
        "experiment": judged.name,
        "outcome": chapter.outcome,
        "why": chapter.why,
        "standing": judged.standing,
        "is_taken": chapter.is_taken,
    }
    if finding is None:
        return found
    return found | {
        "headline": finding.headline,
        "evidence": list(finding.evidence),
        "change": finding.change,
        "advice": None if advice is None else advice.words,
        "options": {} if advice is None else dict(advice.options),
        "concerns": judged.concerns or "whole",
        "gain": judged.gain,
        "gain_of_whole": judged.gain_of_whole,
        "gain_of_whole_in_turn": None if judged.whole is None else judged.whole.in_turn,
        "numbers": str(folder / f"{judged.name}.json"),
        "page": str(folder / f"{judged.name}.html"),
    }
