"""Extraction of features: each chunk once, despite interruptions and failures of the cache."""

import hashlib
import random
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from cache.redis_server import redis_server
from extraction.extracting import write_clips
from extraction.faults import interrupt_the_parent, run_until_killed
from extraction.features import feature_workers
from extraction.features.feature_workers import planned
from extraction.features.running import (
    CPU,
    check_close,
    check_equal,
    expected,
    listed,
    loaded,
    sampling,
)
from headrace.errors import ConfigError
from headrace.extraction.features.feature_extraction import FeatureExtraction
from headrace.extraction.features.feature_options import FeatureOptions
from headrace.extraction.features.feature_set import read_features
from headrace.extraction.features.load_feature_model import measure_signature
from headrace.extraction.features.model_signature import KnownFacts, request_of
from headrace.extraction.features.model_spec import WorkerResources
from headrace.extraction.progress_recorder import ProgressRecorder
from headrace.testing.synth import SynthClip, write_clip

pytestmark = pytest.mark.usefixtures("forked_children")
LENGTHS = (48, 24, 36)
SAMPLES = [(n, k) for n, length in enumerate(LENGTHS) for k in range(0, length, 5) if k != 25]
"""(video, frame) of each feature; frame 25 is lost."""
NO_WORKER = feature_workers.start_no_worker


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    return write_clips(tmp_path_factory.mktemp("clips"), LENGTHS, size=(64, 96), b_frames=0)


@pytest.fixture(autouse=True)
def chunks_of_a_gop(monkeypatch, tmp_path):
    monkeypatch.setattr("headrace.extraction.features.feature_options._CHUNK_PIXELS", 1.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def prepare(clips, store, out):
    """Return a function that prepares an extraction from the clips, or other videos, into `out`."""

    def prepare(function=feature_workers.arithmetic, *, paths=clips, out=out, **options):
        return planned(paths, out, store, function, **options)

    return prepare


@pytest.fixture
def run(prepare):
    """Return a function that prepares and runs an extraction."""
    return lambda *arguments, **options: prepare(*arguments, **options).run()


@pytest.fixture
def results(tmp_path):
    """Return the option of a cache server; with a cache file, workers would not be forks."""
    with redis_server(tmp_path) as server:
        yield {"cache": server.url}


def rows(out: Path) -> list[dict]:
    tables = sorted(out.glob("features-*.parquet"))
    rows = [row for path in tables for row in pyarrow.parquet.read_table(path).to_pylist()]
    assert len({row["chunk_id"] for row in rows}) == len(rows)
    return sorted(rows, key=lambda row: row["chunk_id"])


def features(out: Path) -> list[tuple[int, int]]:
    """Return (video, frame) of each feature, from its values."""
    samples = []
    for row in rows(out):
        assert [first for first, _ in row["features"]] == row["index"]
        samples += [(int(b - a) // 1000, int(a)) for a, b in row["features"]]
    return samples


def hits(out: Path) -> list[bool]:
    return [row["cache_hit"] for row in rows(out)]


def without_times(out: Path) -> list[dict]:
    table = rows(out)
    times = {"cache_hit", "worker", *(name for name in table[0] if name.endswith("_ms"))}
    return [{name: row[name] for name in row if name not in times} for row in table]


def losses(extracted) -> list[tuple[int, int | None, str]]:
    return [(loss.input, loss.index, loss.cause) for loss in extracted.session.lost]


def test_a_video_that_can_be_opened_later_is_added_to_the_folder(clips, run, out, tmp_path):
    late = tmp_path / "late"
    run(paths=[clips[0], late])
    before = rows(out)
    assert {row["video"] for row in before} == {"clip0"}
    late.write_bytes(clips[1].read_bytes())
    assert run(paths=[clips[0], late]).session.outcome == "complete"
    assert not list(out.glob("*.damaged"))
    assert {row["video"] for row in rows(out)} == {"clip0", "late"}
    assert [row for row in rows(out) if row["video"] == "clip0"] == before


def test_each_sample_has_a_feature_or_is_listed_as_lost(clips, run, out):
    extracted = run()
    assert features(out) == SAMPLES
    assert (extracted.came, extracted.wanted, extracted.is_all) == (len(SAMPLES), 23, False)
    assert losses(extracted) == [(0, 25, "damaged"), (2, 25, "damaged")]
    first = rows(out)[0]
    assert (first["video"], first["path"]) == ("clip0", str(clips[0]))
    assert (first["decode_ms"], first["queue_ms"], first["model_ms"]) == (2.0, 1.0, 1.0)
    assert first["write_ms"] > 0
    assert not list((out / ".extraction" / "parts").iterdir())
    names = [stage.name for stage in extracted.session.stages]
    assert names == ["decode", "prepare", "transfer", "model", "write"]
    # Finished chunks are not run again.
    again = run(NO_WORKER)
    assert (again.session.outcome, again.were_there, again.came) == ("complete", *[21] * 2)
    assert losses(again) == losses(extracted)
    assert [path.name for path in out.glob("*.parquet")] == ["features-00000.parquet"]


def test_features_with_nan_or_inf_are_lost_and_not_cached(clips, run, tmp_path, results):
    options = {"paths": clips[:1], **results}
    with_nan = run(feature_workers.gives_nan, out=tmp_path / "a", **options)
    assert losses(with_nan) == [
        (0, 5, "its feature has NaN; check the model, or keep it with --allow-nan"),
        (0, 10, "its feature has Inf; check the model, or keep it with --allow-nan"),
        (0, 25, "damaged"),
    ]
    assert (with_nan.came, with_nan.wanted, with_nan.is_all) == (7, 10, False)
    assert [row["lost_index"] for row in rows(tmp_path / "a")] == [[5], [10], [25], [], []]
    assert losses(run(out=tmp_path / "a", **options)) == losses(with_nan)
    finite = run(out=tmp_path / "b", **options)
    assert (finite.came, finite.is_all) == (9, False)
    assert hits(tmp_path / "b") == [False, False, True, True, True]


def test_features_with_nan_are_kept_on_request_but_not_cached(clips, run, tmp_path, results):
    options = {"paths": clips[:1], "allow_nan": True, **results}
    with_nan = run(feature_workers.gives_nan, out=tmp_path / "a", **options)
    assert losses(with_nan) == [(0, 25, "damaged")]
    values = [feature[1] for row in rows(tmp_path / "a") for feature in row["features"]]
    assert [str(value) for value in values[1:3]] == ["nan", "-inf"]
    run(out=tmp_path / "b", **options)
    assert hits(tmp_path / "b") == [False, False, True, True, True]
    with pytest.raises(ConfigError, match="allow_nan was True, now not set"):
        run(paths=clips[:1], out=tmp_path / "a")


def test_a_model_that_differs_between_processes_is_not_cached(clips, run, tmp_path, results):
    options = {"paths": clips[:1], **results}
    result = run(feature_workers.has_another_state, out=tmp_path / "a", **options)
    assert [note for note in result.session.notes if "differs between" in note] == [
        "not cached: k of the model differs between processes; load it from a file, use a fixed "
        "seed, or give the model an attribute version"
    ]
    run(out=tmp_path / "b", **options)
    assert not any(hits(tmp_path / "b"))


def test_a_module_in_training_mode_is_noted_to_run_in_evaluation_mode(prepare, monkeypatch):
    monkeypatch.setattr(feature_workers, "FACTS", replace(feature_workers.FACTS, is_training=True))
    assert prepare().plan.notes == ("the tests is in training mode; it runs in evaluation mode",)


def test_a_run_reports_its_phases(clips, prepare):
    phases, settled = [], []
    extraction = prepare(paths=clips[:2])
    extraction.run(settled.append, on_phase=phases.append)
    assert phases == ["reading files, 0 of 2 done", "reading files, 1 of 2 done", "extracting"]
    assert sum(settled) == extraction.wanted


def test_each_sample_is_counted_once_as_soon_as_possible():
    counts = []
    recorder = ProgressRecorder(None, {}, {}, on_frames=counts.append)
    for message in (4, 4, {"lost": 1}, 2, {"lost": 9}, {"lost": 3}):
        is_chunk = isinstance(message, dict)
        plain = {"chunk": {"decode": {}, **message}} if is_chunk else {"samples": message}
        recorder.on_message("worker 0", "a", plain)
    assert counts == [4, 4, 0, 2, 0, 3]


@pytest.mark.parametrize("is_cached", [False, True])
def test_three_workers_write_the_same_rows_as_one_with_digests(
    clips, run, tmp_path, results, is_cached
):
    run(out=tmp_path / "one", **(results if is_cached else {}))
    run(out=tmp_path / "three", workers=3)
    table = without_times(tmp_path / "one")
    assert table == without_times(tmp_path / "three")
    assert {(row["video"], row["path"], row["content"]) for row in table} == {
        (clip.stem, str(clip), f"sha256:{hashlib.sha256(clip.read_bytes()).hexdigest()}")
        for clip in clips
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_run_killed_at_any_moment_is_resumed_with_each_chunk_once(clips, store, run, out, seed):
    draw = random.Random(seed)
    moment = {"VICTIM": draw.choice(["worker", "parent"]), "CHANGES": str(draw.randrange(28))}
    arguments = ([*map(str, clips)], str(out), str(store))
    run_until_killed(feature_workers.main, *arguments, **moment)
    written = {row["chunk_id"] for row in rows(out)}
    extracted = run()
    assert (extracted.session.outcome, extracted.came) == ("complete", len(SAMPLES))
    assert features(out) == SAMPLES
    assert written <= {row["chunk_id"] for row in rows(out)}
    assert not list(out.rglob(".*.partial"))


ENDS = {
    feature_workers.crashes: "working on it crashed: the process ended by signal 11",
    feature_workers.hangs: "working on it hung: no message for 1 s",
}
HANGS = pytest.param(feature_workers.hangs, marks=pytest.mark.slow)


@pytest.mark.parametrize("function", [feature_workers.crashes, HANGS])
def test_only_the_chunk_that_ends_workers_is_skipped(run, out, function):
    bad, cause = [(1, 10), (1, 15)], ENDS[function]
    extracted = run(function, stall_seconds=1.0)
    assert features(out) == [sample for sample in SAMPLES if sample not in bad]
    assert [loss[:2] for loss in losses(extracted) if loss[2] == cause] == bad
    # The next run skips it, unless it retries.
    causes = [loss[2] for loss in losses(run(NO_WORKER)) if loss[0] == 1]
    assert causes == [f"{cause}; use --retry to try it again"] * 2
    assert run(retry=True).came == len(SAMPLES)
    assert features(out) == SAMPLES


@pytest.mark.parametrize(
    ("function", "outcome"),
    [("interrupts_its_parent", "interrupted"), ("runs_out_of_room", "failed")],
)
def test_ctrl_c_and_a_full_disk_keep_finished_chunks_in_tables(run, out, function, outcome):
    extracted = run(getattr(feature_workers, function))
    assert extracted.session.outcome == outcome
    assert outcome != "failed" or "no space left on device" in extracted.session.error
    assert 0 < len(features(out)) == extracted.came < len(SAMPLES)
    again = run()
    assert (again.session.outcome, again.were_there) == ("complete", extracted.came)
    assert features(out) == SAMPLES


def test_a_truncated_or_deleted_table_is_computed_again(run, out):
    run()
    table = out / "features-00000.parquet"
    table.write_bytes(table.read_bytes()[:-20])
    [note] = [note for note in run().session.notes if "was renamed" in note]
    assert note.startswith("features-00000.parquet was renamed to features-00000.parquet.damaged")
    assert features(out) == SAMPLES
    assert (out / "features-00000.parquet.damaged").exists()
    for path in out.glob("*.parquet"):
        path.unlink()
    assert run().were_there == 0
    assert features(out) == SAMPLES


def test_cached_results_equal_computed_ones(run, tmp_path, results):
    run(out=tmp_path / "computed", workers=2, **results)
    extracted = run(NO_WORKER, out=tmp_path / "cached", **results)
    assert without_times(tmp_path / "cached") == without_times(tmp_path / "computed")
    assert (set(hits(tmp_path / "cached")), set(hits(tmp_path / "computed"))) == ({True}, {False})
    note = f"12 of 12 chunks were found in the cache {results['cache']}"
    assert note in extracted.session.notes


LRU = "maxmemory-policy allkeys-lru"
SERVERS = [
    ([LRU, "save ''"], feature_workers.kills_the_server, "the cache failed"),
    (
        ["maxmemory 9mb", LRU, "save ''"],
        feature_workers.finds_the_server_slow,
        "did not answer in time",
    ),
    (["maxmemory 1mb", "maxmemory-policy noeviction"], feature_workers.arithmetic, "noeviction"),
]


@pytest.mark.parametrize(("settings", "function", "text"), SERVERS)
def test_features_do_not_depend_on_the_server(
    run, out, tmp_path, monkeypatch, settings, function, text
):
    run(out=tmp_path / "none")
    with redis_server(tmp_path, *settings) as server:
        monkeypatch.setenv("SERVER", str(server.process.pid))
        extracted = run(function, cache=server.url)
    assert any(text in note for note in extracted.session.notes)
    assert extracted.session.outcome == "complete"
    assert without_times(out) == without_times(tmp_path / "none")


def test_an_unresponsive_server_causes_one_warning(prepare, out, tmp_path, monkeypatch):
    feature_workers.be_impatient(monkeypatch.setitem)
    warnings = []
    with redis_server(tmp_path) as server:
        server.process.send_signal(signal.SIGSTOP)
        planning = prepare(feature_workers.impatient, cache=server.url, workers=2)
        extracted = planning.run(on_warning=warnings.append)
    [warning] = warnings
    assert "did not answer in time; the run continues" in warning
    assert [note for note in extracted.session.notes if "cache failed" in note] == warnings
    assert extracted.session.outcome == "complete"
    assert features(out) == SAMPLES


def test_the_password_of_a_cache_is_recorded_nowhere(run, out):
    extracted = run(cache="redis://:hush-hush@127.0.0.1:9/0")
    assert extracted.session.outcome == "complete"
    assert "hush" not in extracted.session.model_dump_json()
    files = [path for path in out.rglob("*") if path.is_file()]
    assert not any(b"hush" in path.read_bytes() for path in files)


def test_an_estimate_can_be_interrupted(prepare, out):
    with pytest.raises(KeyboardInterrupt):
        prepare(interrupt_the_parent).estimate()
    assert not out.exists()


SIZES = ((64, 96), (96, 64), (64, 96))
FOURTH = sampling("every 4")
MODEL = listed()


@pytest.fixture(scope="module")
def two_sizes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return [
        write_clip(folder / f"clip{n}", SynthClip(num_frames=24, gop=8, size=size, b_frames=2))
        for n, size in enumerate(SIZES)
    ]


@pytest.fixture
def extracted(two_sizes, tmp_path, results):
    """Return a function that runs an extraction; it returns video name → array, and notes."""

    def run(name, *, batch_size=16, workers=1, cache=results["cache"], **prepared):
        options = FeatureOptions(
            sources=tuple(map(str, two_sizes)),
            model=MODEL,
            out=tmp_path / name,
            sampling=FOURTH,
            effort=WorkerResources(batch_size=batch_size),
            workers=workers,
            cache=cache,
        )
        result = FeatureExtraction.prepare(options, **prepared).run()
        assert (result.session.outcome, result.came) == ("complete", 18)
        videos = read_features(options.out)
        features = {name: video.features.numpy() for name, video in videos.items()}
        return features, result.session.notes

    return run


def test_features_equal_a_plain_loop_for_any_workers_batches_and_caches(two_sizes, extracted):
    with KnownFacts() as known:  # in a child, test_facts.py measures it
        known.keep(request_of(MODEL, FOURTH, CPU), measure_signature(MODEL, FOURTH, CPU)[0], [])
    features = expected(loaded(MODEL, FOURTH), two_sizes, FOURTH)
    by_loop = {path.stem: features[video] for video, path in enumerate(two_sizes)}
    computed, _ = extracted("one", batch_size=16, workers=1)
    check_close(computed, by_loop)
    cached, notes = extracted("cached", function=feature_workers.start_no_worker)
    assert any(note.startswith("9 of 9 chunks were found in the cache") for note in notes)
    check_equal(cached, computed)
    uncached, notes = extracted("two", batch_size=1, workers=2, cache="none")
    assert not any("found in the cache" in note for note in notes)
    check_close(uncached, by_loop)
