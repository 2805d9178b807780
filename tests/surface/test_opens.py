"""Recordings of earlier versions of headrace open, or are refused with both versions."""

import json
import os
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
import torch

import headrace
from headrace.cache.cache_url import open_store
from headrace.cache.maintenance import verify
from headrace.cli import main
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.models.checkpoint import TrainedHead
from headrace.models.memory_table import MemoryKey, MemoryTables
from headrace.profiling.session import Session
from headrace.video.source import Source
from surface.kept_states import LOADERS, RECORDED, VIDEOS, epoch_sampler, held, slot_memory, taken

STATES = json.loads((RECORDED / "states.json").read_text("utf-8"))
KINDS = {
    "run": "run",
    "other": "run",
    "live": "live",
    "retrain": "retrain",
    "frames": "extract",
    "features": "extract",
    "proxies": "extract",
    "profiled": "loader",
    "annotate": "run",
}


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Return a writable copy of the recordings, with the paths of its videos."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "recorded"
    shutil.copytree(RECORDED, folder, ignore=shutil.ignore_patterns("bench", "sessions"))
    for path in folder.rglob("*.json*"):
        text = path.read_text("utf-8")
        path.write_text(text.replace("/recorded/", f"{folder}/"), "utf-8")
    for row in (folder / "proxies" / "proxies.jsonl").read_text("utf-8").splitlines():
        video = json.loads(row)
        changed = video["fingerprint"]["mtime_ns"]
        os.utime(video["path"], ns=(changed, changed))
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_a_session_opens(name):
    assert Session.load(RECORDED / "sessions" / name / "session.json").kind == KINDS[name]


def test_a_session_of_another_version_is_refused_with_both_versions(tmp_path):
    text = (RECORDED / "sessions" / "run" / "session.json").read_text("utf-8")
    assert '"version":2' in text
    (tmp_path / "session.json").write_text(text.replace('"version":2', '"version":1'), "utf-8")
    with pytest.raises(ConfigError, match=r"is version 1, this headrace reads version 2"):
        Session.load(tmp_path / "session.json")


@pytest.mark.parametrize(("old", "new"), [("every-frame", "keep-all"), ("freshest", "keep-last")])
def test_an_older_session_opens_with_the_current_names_of_overload(tmp_path, old, new):
    text = (RECORDED / "sessions" / "live" / "session.json").read_text("utf-8")
    assert '"overload":"auto"' in text
    path = tmp_path / "session.json"
    path.write_text(text.replace('"overload":"auto"', f'"overload":"{old}"'), "utf-8")
    assert Session.load(path).provenance.configuration["overload"] == new


@pytest.mark.parametrize("kind", LOADERS)
def test_a_loader_resumes_from_its_state(kind, own_indexes):
    with LOADERS[kind]() as loader:
        now = json.loads(json.dumps(taken(loader)))
    assert now["state"].pop("version") == 1  # recorded states have no version
    assert now == STATES[kind]
    with LOADERS[kind]() as loader:
        loader.load_state_dict(STATES[kind]["state"])
        assert json.loads(json.dumps(held(next(iter(loader))))) == STATES[kind]["next"]


def test_a_sampler_resumes_from_its_state(own_indexes):
    sampler, recording = epoch_sampler(), STATES["epoch sampler"]
    sampler.load_state_dict(recording["state"])
    frames = iter(sampler)
    assert [next(frames) for _ in recording["next"]] == recording["next"]


@pytest.mark.parametrize("kind", LOADERS)
def test_a_state_of_another_version_is_refused_with_both_versions(kind, own_indexes):
    state = {**STATES[kind]["state"], "version": 2}
    with (
        LOADERS[kind]() as loader,
        pytest.raises(ConfigError, match=r"has version 2, this headrace reads version 1"),
    ):
        loader.load_state_dict(state)


def test_a_sampler_and_a_memory_refuse_another_version():
    for owner in (epoch_sampler(), slot_memory()):
        with pytest.raises(ConfigError, match=r"has version 2, this headrace reads version 1"):
            owner.load_state_dict({**owner.state_dict(), "version": 2})


def test_a_memory_of_slots_opens():
    recorded_state = torch.load(RECORDED / "slot_memory.pt", weights_only=True)
    memory = slot_memory()
    memory.load_state_dict(recorded_state)
    state = memory.state_dict()
    assert state["slots"] == recorded_state["slots"] == [0, 2]
    assert torch.equal(state["memory"][""], recorded_state["memory"][""])


@pytest.mark.parametrize(("version", "hits"), [(3, 0), (4, 1)])
def test_an_index_is_read_from_the_store_or_scanned_again(recorded, version, hits):
    store = IndexStore(recorded / "store")
    source = Source(str(recorded / "videos" / "a.mp4"))
    store.entry(source).parent.mkdir()
    shutil.copy(recorded / "index" / f"a-{version}.npz", store.entry(source))
    index = store.load(source)
    assert (store.counters.hits, store.counters.misses) == (hits, 1 - hits)
    assert np.array_equal(index.pts, store.scan(source).pts)


def test_a_cache_opens_with_all_its_results(recorded):
    with closing(open_store(str(recorded / "results.sqlite"), must_exist=True)) as store:
        report = verify(store)
    assert (report.entries, report.damaged) == (1, ())


def test_a_cache_of_another_version_is_refused_with_both_versions(recorded):
    path = recorded / "results.sqlite"
    with closing(sqlite3.connect(path)) as sqlite:
        sqlite.execute("PRAGMA user_version = 9")
    with (
        closing(open_store(str(path), must_exist=True)) as store,
        pytest.raises(ConfigError) as end,
    ):
        store.state()
    assert "has layout 9, this headrace reads 1" in str(end.value)


def test_proxies_are_read_in_place_of_their_originals(recorded):
    proxies = headrace.Proxies(recorded / "proxies")
    assert len(proxies.all(map(str, sorted((recorded / "videos").glob("*.mp4"))))) == len(VIDEOS)


EXTRACTIONS = {
    "frames": ("--every", "12", "--size", "32x48", "--format", "jpg"),
    "features": (
        *("--every", "12", "--model-name", "squeezenet1_1", "--weights", "none"),
        *("--cache", "none"),
    ),
}


def test_a_finished_extraction_is_not_repeated(recorded, capsys):
    before = {path: path.read_bytes() for path in (recorded / "frames").glob("*.jpg")}
    code = _extract(recorded, "frames")
    assert (code, "27 in" in capsys.readouterr().out) == (0, True)
    assert Session.load(recorded / "frames" / "session.json").decode.frames_decoded == 0
    assert before == {path: path.read_bytes() for path in (recorded / "frames").glob("*.jpg")}


@pytest.mark.parametrize("what", EXTRACTIONS)
def test_an_extraction_of_another_version_is_refused_with_both_versions(recorded, what, capsys):
    request = recorded / what / ".extraction" / "request.json"
    request.write_text(request.read_text("utf-8").replace('"version": 1', '"version": 9'), "utf-8")
    assert _extract(recorded, what) == 2
    assert "its layout is version 9, not 1" in capsys.readouterr().err


@pytest.mark.parametrize("facts", [{}, [], {"frames": [[0]], "lost": []}, {"frames": 3}])
def test_an_extraction_with_an_invalid_entry_is_refused(recorded, facts, capsys):
    chunks = recorded / "frames" / ".extraction" / "chunks"
    entry = chunks / "00000-00000000-00000025.json"
    entry.write_text(json.dumps({**json.loads(entry.read_text("utf-8")), "facts": facts}), "utf-8")
    assert _extract(recorded, "frames") == 2
    assert "has an invalid entry" in capsys.readouterr().err


def test_features_open(recorded):
    features = headrace.read_features(recorded / "features")
    assert len(features) == len(VIDEOS)


def test_a_table_of_memory_is_found_by_its_key(tmp_path):
    table = json.loads((RECORDED / "memory" / "table.json").read_text("utf-8"))
    key = MemoryKey(**{**table["key"], "input": tuple(table["key"]["input"])})
    tables = MemoryTables(tmp_path)
    shutil.copy(RECORDED / "memory" / "table.json", tables.entry(key))
    assert len(tables.load(key).cells) == len(table["cells"]) > 0


def test_a_trained_head_opens():
    path = RECORDED / "head.pt"
    head = TrainedHead.from_checkpoint(torch.load(path, weights_only=True), path)
    assert head.classes == ("left", "right")


def test_an_index_of_cameras_opens(recorded):
    layout = headrace.CameraLayout.read(recorded / "index_frame.json")
    assert (layout.cameras, len(layout.clips)) == (("left", "right"), 2)


@pytest.fixture
def own_indexes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _extract(recorded, what):
    command = ["extract", what, str(recorded / "videos"), "-o", str(recorded / what)]
    try:
        main([*command, *EXTRACTIONS[what], "--workers", "1"])
    except SystemExit as end:
        return int(end.code or 0)
    return 0
