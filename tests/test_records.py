"""Records become JSON and are read back; errors name file, field and value."""

import json
from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.extraction.extraction_options import OutputSpec, RequestedVideo
from headrace.extraction.features.feature_result import Lost, Outcome, ResultInfo, Times
from headrace.extraction.features.feature_table import TableFacts
from headrace.extraction.features.model_spec import ModelSignature, WorkerResources
from headrace.extraction.journal import DeadLetter, JournalEntry
from headrace.extraction.ray.actor import ActorArgs, NodeRequirements
from headrace.models.memory_table import MemoryCell, MemoryKey, MemoryTable
from headrace.records import from_dict, from_json, to_dict, to_json

VIDEO = RequestedVideo(name="a\udcff", path="/data/a\udcff.mp4", size=None, mtime_ns=None)
PLAIN_VIDEO = {"name": "a\udcff", "path": "/data/a\udcff.mp4", "size": None, "mtime_ns": None}
PLAIN_VIDEO["rate"] = None
ASKED = {"every": 3, "quality": None, "scale": 1.5, "damaged": "concealed", "alpha": True}
REQUEST = OutputSpec(kind="frames", asked=ASKED, videos=(VIDEO,))
PLAIN_REQUEST = {"kind": "frames", "asked": ASKED, "videos": [PLAIN_VIDEO]}
TERMS = NodeRequirements(folder="/out", seal="a 1\n", versions={"av": "18.1"})
PLAIN_TERMS = {"folder": "/out", "seal": "a 1\n", "versions": {"av": "18.1"}}
TIMES = {"decode_ms": 1.5, "queue_ms": 0.0, "prepare_ms": 0.0, "transfer_ms": 0.0}
TIMES |= {"model_ms": 0.0, "write_ms": 2.0}
MADE = {"times": TIMES, "is_cached": True, "frames_decoded": 7, "worker": "a"}
MADE |= {"started_seconds": 1.0, "ended_seconds": 0.1 + 0.2}
FACTS = {"shape": [2, 2], "layer": "fc", "origin": "here", "preprocess": {"a": [1]}}
FACTS |= {"model": {}, "numerics": {"b": None}, "uncached": "a lambda", "is_training": False}
TABLE = {"model": "r3d_18", "layer": None, "weights": "none", "shape": [512], "dtype": "float16"}
TABLE |= {"clip_len": 4, "stride": 2, "sampling": "every 1", "request": "sha256:1"}
KEY = {"device": "cpu", "memory_bytes": 1, "driver": None, "torch": "2", "model": "m"}
KEY |= {"precision": "float32", "prep_level": "light", "input": [1, 3, 8, 8], "version": 1}
CELL = {"size": [8, 8], "batch_size": 4, "peak_bytes": 9, "model_bytes": None}
RECORDS: dict[str, tuple[Any, Any]] = {
    "request": (REQUEST, PLAIN_REQUEST),
    "entry": (
        JournalEntry(files=(("a.jpg", 3),), facts={"lost": [[1, "why"]]}),
        {"files": [["a.jpg", 3]], "facts": {"lost": [[1, "why"]]}},
    ),
    "quarantine": (DeadLetter(reason="died", decoder="18"), {"reason": "died", "decoder": "18"}),
    "outcome": (
        Outcome(came=3, lost=(Lost(4, "damaged: ä"),), concealed=(5,)),
        {"came": 3, "lost": [[4, "damaged: ä"]], "concealed": [5]},
    ),
    "made": (ResultInfo(**{**MADE, "times": Times(**TIMES)}), MADE),
    "facts of a model": (ModelSignature(**{**FACTS, "shape": (2, 2)}), FACTS),
    "facts of a table": (TableFacts(**{**TABLE, "shape": (512,)}), TABLE),
    "effort": (
        WorkerResources(batch_size="auto"),
        {"batch_size": "auto", "decoders": 0, "threads": None},
    ),
    "order": (
        ActorArgs(target="a:b", argument={"c": [1]}, alone=True, terms=TERMS),
        {"target": "a:b", "argument": {"c": [1]}, "alone": True, "terms": PLAIN_TERMS},
    ),
    "memory": (
        MemoryTable(
            key=MemoryKey(**{**KEY, "input": (1, 3, 8, 8)}),
            measured="2026-11-22",
            cells=(MemoryCell(**{**CELL, "size": (8, 8)}),),
        ),
        {"key": KEY, "measured": "2026-11-22", "cells": [CELL]},
    ),
}


@pytest.mark.parametrize(("record", "plain"), RECORDS.values(), ids=RECORDS)
def test_a_record_becomes_json_and_is_read_back(record, plain):
    assert json.dumps(to_dict(record)) == json.dumps(plain)
    found = from_dict(type(record), json.loads(json.dumps(plain)), file="a.json")
    assert (found, repr(found)) == (record, repr(record))


def test_json_of_a_record_starts_with_its_version():
    text = to_json(REQUEST, version=3, indent=1)
    assert text == json.dumps({"version": 3, **PLAIN_REQUEST}, indent=1)
    assert from_json(OutputSpec, text, file="a.json", version=3) == REQUEST


@pytest.mark.parametrize(
    ("plain", "field", "found"),
    [
        ([1, 2], "it", "found [1, 2]"),
        ({**PLAIN_REQUEST, "mood": "good"}, "mood", "found 'good'"),
        ({"kind": "frames", "videos": []}, "asked", "required"),
        ({**PLAIN_REQUEST, "kind": 3}, "kind", "found 3"),
        ({**PLAIN_REQUEST, "videos": "x" * 99}, "videos", f"found '{'x' * 59}…"),
        ({**PLAIN_REQUEST, "videos": [PLAIN_VIDEO, 7]}, "videos.1", "found 7"),
        ({**PLAIN_REQUEST, "videos": [{**PLAIN_VIDEO, "size": "?"}]}, "videos.0.size", "found '?'"),
        ({**PLAIN_REQUEST, "videos": [{**PLAIN_VIDEO, "x": None}]}, "videos.0.x", "found None"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_record_is_an_error_with_file_field_and_value(plain, field, found):
    with pytest.raises(ConfigError) as error:
        from_dict(OutputSpec, plain, file="a.json")
    assert str(error.value).startswith(f"cannot read a.json: {field}: ")
    assert str(error.value).endswith(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is damaged or truncated, not complete JSON"),
        (to_json(REQUEST, version=3)[:-1], "it is damaged or truncated, not complete JSON"),
        ("[" * 100_000, "it is damaged or truncated, not complete JSON"),
        ("[3]", "it is JSON without the version of a layout"),
        (json.dumps(PLAIN_REQUEST), "it is JSON without the version of a layout"),
        (to_json(REQUEST, version=4), "its layout is version 4, not 3"),
        ('{"version": "4", "mood": 1}', "its layout is version '4', not 3"),
    ],
    ids=["empty", "cut", "deep", "a list", "without", "newer", "other"],
)
def test_a_text_of_another_version_is_an_error_with_both_versions(text, said):
    with pytest.raises(ConfigError) as error:
        from_json(OutputSpec, text, file="a.json", version=3)
    assert str(error.value) == f"cannot read a.json: {said}"
