"""An extraction of features: each chunk once, wherever a run was ended, whatever the cache does."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from cache.redis_server import redis_server
from extraction.features import feature_workers
from extraction.features.feature_workers import extract, planned
from headrace.errors import ConfigError
from headrace.testing.synth import SynthClip, write_clip

LENGTHS = (48, 24, 36)
SAMPLES = [(n, k) for n, length in enumerate(LENGTHS) for k in range(0, length, 5) if k != 25]
"""Video and frame of each feature; frame 25 is lost."""


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return [
        write_clip(folder / f"clip{number}", SynthClip(num_frames=n, gop=10, size=(64, 96)))
        for number, n in enumerate(LENGTHS)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(autouse=True)
def chunks_of_a_gop(monkeypatch, tmp_path):
    monkeypatch.setattr("headrace.extraction.features.chunks._CHUNK_PIXELS", 1.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def rows(out: Path) -> list[dict]:
    tables = sorted(out.glob("features-*.parquet"))
    found = [row for path in tables for row in pyarrow.parquet.read_table(path).to_pylist()]
    assert len({row["chunk_id"] for row in found}) == len(found)
    return sorted(found, key=lambda row: row["chunk_id"])


def features(out: Path) -> list[tuple[int, int]]:
    """Video and frame of each, as the numbers of the features say."""
    found = []
    for row in rows(out):
        assert [feature[0] for feature in row["features"]] == row["index"]
        found += [(int(each[1] - each[0]) // 1000, int(each[0])) for each in row["features"]]
    return found


def without_times(found: list[dict]) -> list[dict]:
    times = {"cache_hit", "worker", *(name for name in found[0] if name.endswith("_ms"))}
    return [{name: row[name] for name in row if name not in times} for row in found]


def test_a_video_that_can_be_opened_later_is_added_to_what_is_there(clips, store, tmp_path):
    late, out = tmp_path / "late", tmp_path / "out"
    extract([clips[0], late], out, store)
    before = rows(out)
    assert {row["video"] for row in before} == {"clip0"}
    late.write_bytes(clips[1].read_bytes())
    extracted = extract([clips[0], late], out, store)
    assert not list(out.glob("*.damaged"))
    assert {row["video"] for row in rows(out)} == {"clip0", "late"}
    assert [row for row in rows(out) if row["video"] == "clip0"] == before
    assert extracted.session.outcome == "complete"


def test_each_sample_gives_a_feature_and_what_is_lost_is_named(clips, store, tmp_path):
    out = tmp_path / "out"
    extracted = extract(clips, out, store)
    assert features(out) == SAMPLES
    assert (extracted.came, extracted.wanted, extracted.is_all) == (len(SAMPLES), 23, False)
    lost = [(loss.input, loss.index, loss.cause) for loss in extracted.session.lost]
    assert lost == [(0, 25, "damaged"), (2, 25, "damaged")]
    first = rows(out)[0]
    assert (first["video"], first["path"]) == ("clip0", str(clips[0]))
    assert (first["decode_ms"], first["queue_ms"], first["model_ms"]) == (2.0, 1.0, 1.0)
    assert first["write_ms"] > 0
    assert not list((out / ".extraction" / "parts").iterdir())
    names = [stage.name for stage in extracted.session.stages]
    assert names == ["decode", "prepare", "transfer", "model", "write"]


def test_features_with_nan_or_inf_are_lost_named_and_not_in_the_cache(clips, store, tmp_path):
    cache = str(tmp_path / "cache.sqlite")
    sick = extract(clips[:1], tmp_path / "a", store, feature_workers.gives_nan, cache=cache)
    lost = [(loss.index, loss.cause) for loss in sick.session.lost]
    assert lost == [
        (5, "its feature holds NaN; look into the model, or keep it with --allow-nan"),
        (10, "its feature holds Inf; look into the model, or keep it with --allow-nan"),
        (25, "damaged"),
    ]
    assert (sick.came, sick.wanted, sick.is_all) == (7, 10, False)
    assert [row["lost_index"] for row in rows(tmp_path / "a")] == [[5], [10], [25], [], []]
    assert extract(clips[:1], tmp_path / "a", store, cache=cache).session.lost == sick.session.lost
    well = extract(clips[:1], tmp_path / "b", store, cache=cache)
    assert (well.came, well.is_all) == (9, False)
    assert [row["cache_hit"] for row in rows(tmp_path / "b")] == [False, False, True, True, True]


def test_features_with_nan_are_kept_where_that_is_asked_but_not_in_the_cache(
    clips, store, tmp_path
):
    given = {"cache": str(tmp_path / "cache.sqlite"), "allow_nan": True}
    sick = extract(clips[:1], tmp_path / "a", store, feature_workers.gives_nan, **given)
    assert [loss.index for loss in sick.session.lost] == [25]
    kept = [feature[1] for row in rows(tmp_path / "a") for feature in row["features"]]
    assert [str(number) for number in kept[1:3]] == ["nan", "-inf"]
    extract(clips[:1], tmp_path / "b", store, **given)
    assert [row["cache_hit"] for row in rows(tmp_path / "b")] == [False, False, True, True, True]
    with pytest.raises(ConfigError, match="allow_nan was True, now not set"):
        extract(clips[:1], tmp_path / "a", store)


def test_a_model_that_differs_from_process_to_process_is_not_cached(clips, store, tmp_path):
    given = {"cache": str(tmp_path / "cache.sqlite")}
    found = extract(clips[:1], tmp_path / "a", store, feature_workers.has_another_state, **given)
    assert [note for note in found.session.notes if "differs from process" in note] == [
        "not kept in the cache: k of the model differs from process to process; have it follow "
        "from a file or a fixed seed, or give the model an attribute version"
    ]
    extract(clips[:1], tmp_path / "b", store, **given)
    assert not any(row["cache_hit"] for row in rows(tmp_path / "b"))


def test_a_module_in_training_mode_is_said_to_run_in_evaluation_mode(
    clips, store, tmp_path, monkeypatch
):
    facts = replace(feature_workers.FACTS, is_training=True)
    monkeypatch.setattr(feature_workers, "FACTS", facts)
    assert planned(clips[:1], tmp_path / "out", store).plan.notes == (
        "the tests is in training mode; it is run in evaluation mode",
    )


def test_a_run_names_its_phases(clips, store, tmp_path):
    phases = []
    planned(clips[:2], tmp_path / "out", store).run(on_phase=phases.append)
    assert phases == ["reading files, 0 of 2 done", "reading files, 1 of 2 done", "extracting"]


def test_three_workers_leave_the_same_as_one(clips, store, tmp_path):
    extract(clips, tmp_path / "one", store)
    extract(clips, tmp_path / "three", store, workers=3)
    assert without_times(rows(tmp_path / "one")) == without_times(rows(tmp_path / "three"))


@pytest.mark.parametrize("cache", ["none", "sqlite"])
def test_tables_hold_name_path_and_digest_of_each_video_from_the_first_run_on(
    clips, store, tmp_path, cache
):
    extract(clips, tmp_path / "out", store, cache=cache)
    found = {(row["video"], row["path"], row["content"]) for row in rows(tmp_path / "out")}
    digests = [hashlib.sha256(clip.read_bytes()).hexdigest() for clip in clips]
    assert found == {
        (clip.stem, str(clip), f"sha256:{digest}")
        for clip, digest in zip(clips, digests, strict=True)
    }


def test_what_is_done_is_not_done_again(clips, store, tmp_path):
    out = tmp_path / "out"
    before = extract(clips, out, store)
    again = extract(clips, out, store, feature_workers.nothing_is_left_to_do)
    assert (again.session.outcome, again.were_there, again.came) == ("complete", *[21] * 2)
    assert again.session.lost == before.session.lost
    assert [path.name for path in out.glob("*.parquet")] == ["features-00000.parquet"]


@pytest.mark.parametrize("seed", range(20))
def test_killed_with_minus_9_at_any_moment_and_run_again_each_chunk_is_there_once(
    clips, store, tmp_path, seed
):
    chance = random.Random(seed)
    victim = chance.choice(["worker", "parent"])
    moment = {"VICTIM": victim, "CHANGES": str(chance.randrange(28))}
    asked = {"paths": list(map(str, clips)), "out": str(tmp_path / "out"), "store": str(store)}
    path = os.pathsep.join(filter(None, sys.path))
    killed = subprocess.run(
        [sys.executable, feature_workers.__file__, json.dumps(asked)],
        env=os.environ | moment | {"PYTHONPATH": path},
        check=False,
    )
    assert killed.returncode == -9
    there = set(rows_of_whole_tables(tmp_path / "out"))
    extracted = extract(clips, tmp_path / "out", store)
    assert (extracted.session.outcome, extracted.came) == ("complete", len(SAMPLES))
    assert features(tmp_path / "out") == SAMPLES
    assert there <= set(rows_of_whole_tables(tmp_path / "out"))
    assert not list((tmp_path / "out").rglob(".*.partial"))


def rows_of_whole_tables(out: Path) -> list[str]:
    return [row["chunk_id"] for row in rows(out)]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("crashes", "working on it crashed: the process ended by signal 11"),
        ("hangs", "working on it hung: nothing came for 1 s"),
    ],
)
def test_of_chunks_at_work_only_the_one_that_ends_workers_is_left_out(
    clips, store, tmp_path, function, words
):
    function = getattr(feature_workers, function)
    out = tmp_path / "out"
    extracted = extract(clips, out, store, function, stall_seconds=1.0)
    bad = [(1, 10), (1, 15)]
    assert features(out) == [each for each in SAMPLES if each not in bad]
    lost = [(each.input, each.index) for each in extracted.session.lost if each.cause == words]
    assert lost == bad
    # It stays where it is; nobody tries it again, unless told to.
    again = extract(clips, out, store, feature_workers.nothing_is_left_to_do)
    causes = [each.cause for each in again.session.lost if each.input == 1]
    assert causes == [f"{words}; --retry tries it again"] * 2
    assert extract(clips, out, store, retry=True).came == len(SAMPLES)
    assert features(out) == SAMPLES


def test_ctrl_c_keeps_what_is_done_in_tables(clips, store, tmp_path):
    out = tmp_path / "out"
    extracted = extract(clips, out, store, feature_workers.interrupts_its_parent)
    assert extracted.session.outcome == "interrupted"
    assert 0 < len(features(out)) == extracted.came < len(SAMPLES)
    assert extract(clips, out, store).were_there == extracted.came
    assert features(out) == SAMPLES


def test_a_full_disk_keeps_what_was_done_before(clips, store, tmp_path):
    out = tmp_path / "out"
    extracted = extract(clips, out, store, feature_workers.runs_out_of_room)
    assert extracted.session.outcome == "failed"
    assert "no space left on device" in extracted.session.error
    assert 0 < len(features(out)) == extracted.came
    assert extract(clips, out, store).session.outcome == "complete"
    assert features(out) == SAMPLES


def test_a_table_that_is_cut_off_is_set_aside_and_its_chunks_are_done_again(clips, store, tmp_path):
    out = tmp_path / "out"
    extract(clips, out, store)
    table = out / "features-00000.parquet"
    table.write_bytes(table.read_bytes()[:-20])
    extracted = extract(clips, out, store)
    [note] = [each for each in extracted.session.notes if "set aside" in each]
    assert note.startswith("features-00000.parquet was set aside as features-00000.parquet.damaged")
    assert features(out) == SAMPLES
    assert (out / "features-00000.parquet.damaged").exists()


def test_what_was_in_a_table_that_was_deleted_is_done_again(clips, store, tmp_path):
    out = tmp_path / "out"
    assert extract(clips, out, store).session.outcome == "complete"
    (out / "features-00000.parquet").unlink()
    assert extract(clips, out, store).were_there == 0
    assert features(out) == SAMPLES


def test_a_folder_takes_one_request(clips, store, tmp_path):
    extract(clips, tmp_path / "out", store)
    with pytest.raises(ConfigError, match="damaged was left out, now concealed"):
        extract(clips, tmp_path / "out", store, on_error="conceal")


def test_a_cached_result_is_the_fresh_one(clips, store, tmp_path):
    cache = str(tmp_path / "results.sqlite")
    extract(clips, tmp_path / "fresh", store, cache=cache, workers=2)
    nobody = feature_workers.nothing_is_left_to_do
    extracted = extract(clips, tmp_path / "cached", store, nobody, cache=cache)
    fresh = without_times(rows(tmp_path / "fresh"))
    assert without_times(rows(tmp_path / "cached")) == fresh
    assert {row["cache_hit"] for row in rows(tmp_path / "cached")} == {True}
    assert {row["cache_hit"] for row in rows(tmp_path / "fresh")} == {False}
    assert f"12 of 12 chunks were found in the cache {cache}" in extracted.session.notes


@pytest.mark.parametrize(
    ("settings", "function", "words"),
    [
        (("maxmemory-policy allkeys-lru", 'save ""'), "kills_the_server", "the cache failed"),
        (
            ("maxmemory 9mb", "maxmemory-policy allkeys-lru", 'save ""'),
            "finds_the_server_slow",
            "did not answer in time",
        ),
        (("maxmemory 1mb", "maxmemory-policy noeviction"), "arithmetic", "noeviction"),
    ],
)
def test_whatever_becomes_of_the_server_the_features_are_the_same(
    clips, store, tmp_path, monkeypatch, settings, function, words
):
    extract(clips, tmp_path / "none", store)
    function = getattr(feature_workers, function)
    with redis_server(tmp_path, *settings) as server:
        monkeypatch.setenv("SERVER", str(server.process.pid))
        extracted = extract(clips, tmp_path / "out", store, function, cache=server.url)
    assert any(words in note for note in extracted.session.notes)
    assert extracted.session.outcome == "complete"
    found = without_times(rows(tmp_path / "out"))
    assert found == without_times(rows(tmp_path / "none"))


def test_a_server_that_does_not_answer_at_all_costs_one_warning(
    clips, store, tmp_path, monkeypatch
):
    feature_workers.be_impatient(monkeypatch.setitem)
    with redis_server(tmp_path) as server:
        server.process.send_signal(signal.SIGSTOP)
        told = []
        planning = feature_workers.planned(
            clips, tmp_path / "out", store, feature_workers.impatient, cache=server.url, workers=2
        )
        extracted = planning.run(on_warning=told.append)
    [warning] = told
    assert "did not answer in time; the run goes on" in warning
    assert [note for note in extracted.session.notes if "cache failed" in note] == told
    assert extracted.session.outcome == "complete"
    assert features(tmp_path / "out") == SAMPLES


def test_a_password_of_the_cache_stands_nowhere(clips, store, tmp_path):
    cache = "redis://:hush-hush@127.0.0.1:9/0"
    extracted = extract(clips, tmp_path / "out", store, cache=cache)
    assert extracted.session.outcome == "complete"
    assert "hush" not in extracted.session.model_dump_json()
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not any(b"hush" in path.read_bytes() for path in files)


def test_a_forecast_can_be_interrupted(clips, tmp_path):
    prepared = feature_workers.planned(
        clips, tmp_path / "out", tmp_path / "store", feature_workers.interrupts_before_a_sample
    )
    with pytest.raises(KeyboardInterrupt):
        prepared.forecast()
    assert not (tmp_path / "out").exists()
