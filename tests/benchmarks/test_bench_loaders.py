"""bench_scaling, bench_cores, bench_startup, bench_first_batch, bench_proxy, and `loading`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import bench_cores as cores
from benchmarks import bench_first_batch, bench_proxy
from benchmarks.bench_cores import Loading, time_loaders, time_planning
from benchmarks.bench_first_batch import BATCHES, NAIVE, VARIANTS, first_batch
from benchmarks.bench_scaling import measure_size
from benchmarks.bench_startup import time_opening
from benchmarks.loading import BLOCK_BYTES, Network, SlowFile, copy_files, know, link_files, load
from benchmarks.record import Repeat, Row, TimedResult, origin
from benchmarks.worker import WorkerError, answer_here, ask_worker
from headrace import IndexStore, open_index, read_clip
from headrace.loaders.job_decoder import JobWorker
from headrace.testing.synth import SynthClip, write_clip

TASK: dict[str, Any] = {
    **{"size": (16, 16), "batch_size": 4, "workers": 1, "memory_budget": "1MiB"},
    **{"warm_up_seconds": 30.0, "seconds": 0.01},
}
KNOWN = {"open_seconds": 0.5, "first_seconds": 1.0, "frames": 8, "wall_seconds": 2.0}


@pytest.fixture
def files(tmp_path):
    return [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12, gop=6)) for k in range(2)]


@pytest.fixture
def links(files, tmp_path):
    links = link_files(files, tmp_path / "videos", 5)
    know(files, links, IndexStore(tmp_path / "known"))
    return links


def test_links_cycle_through_the_videos(files, links):
    assert [link.read_bytes() for link in links] == [
        files[number].read_bytes() for number in (0, 1, 0, 1, 0)
    ]


def test_indexes_of_all_links_are_stored_by_scanning_the_videos(links, tmp_path):
    store = IndexStore(tmp_path / "known")
    assert [len(open_index(link, store)) for link in links] == [12] * 5
    assert (store.counters.hits, store.counters.misses) == (5, 0)


def test_a_loader_of_links_is_opened_and_timed(links, tmp_path):
    paths = list(map(str, links))
    known = str(tmp_path / "known")
    repeat = Repeat(**load(paths=paths, store=known, counts_files=True, **TASK))
    assert repeat.is_filled
    assert repeat.lookahead > 4
    assert repeat.frames > 0
    assert 1 <= repeat.open_files < 20


def test_without_seconds_nothing_is_decoded(links, tmp_path):
    task = {**TASK, "seconds": None}
    figures = load(paths=list(map(str, links)), store=str(tmp_path / "new"), **task)
    assert list(figures) == ["open_seconds"]
    assert len(list((tmp_path / "new").iterdir())) == 5


def test_copies_have_different_contents_and_the_same_frames(files, tmp_path):
    copies = copy_files(files, tmp_path / "videos", 5)
    indexes = [open_index(copy, None) for copy in copies]
    assert len({index.source.content_id() for index in indexes}) == 5
    for number, copy in enumerate(copies):
        assert np.array_equal(read_clip(copy, 0, 12, 1), read_clip(files[number % 2], 0, 12, 1))


@pytest.mark.parametrize("spills", [False, True])
def test_a_set_is_opened_with_new_files_then_read_without_and_with_spill(spills):
    requests, known = [], dict[str, Any](KNOWN)

    def ask(request):
        requests.append((request["seconds"], "spill" in request, "whole" in request))
        if "spill" in request:
            (Path(request["spill"]) / "0").mkdir(parents=True, exist_ok=True)
            (Path(request["spill"]) / "0" / "segment").write_bytes(b"12345")
        return known if request["seconds"] is not None else {"open_seconds": 3.0}

    rows = [*measure_size([Path("a.mp4")], TASK, spills=spills, ask=ask)]
    first = rows[0].repeats[0]
    assert (rows[0].kind, first.scan_seconds, first.open_seconds) == ("1 files", 3.0, 0.5)
    later = [(0.0, True, True), (0.01, True, False)] if spills else []
    assert requests == [(None, False, False), (0.01, False, False), *later]
    assert [row.repeats[0].written_bytes for row in rows] == [None, 5, 5][: len(rows)]


def test_an_epoch_is_timed_and_the_next_process_reads_its_spill(files):
    rows = [*measure_size(files, TASK, spills=True, ask=answer_here)]
    assert [row.failure for row in rows] == [None, None, None]
    _, first, second = (row.repeats[0] for row in rows)
    assert (first.warm_up_frames, first.frames) == (4, 20)
    assert first.decoded <= 24  # frames decoded during the warm-up are not counted
    assert first.written_bytes
    assert second.decoded == 0


def test_the_failure_of_a_size_stays_in_the_result(tmp_path, forked_workers):
    [row] = measure_size([tmp_path / "gone.mp4"], TASK, spills=False, ask=ask_worker)
    assert "cannot open" in row.failure


SUMMED = {**TASK, "lookahead": None, "seed": 1, "has_checksum": True, "warm_up_seconds": 0.0}


@pytest.fixture
def paths(files):
    return [str(path) for path in files]


def test_all_loaders_deliver_equal_frames(paths):
    plain = load(paths=paths, **SUMMED)
    for options in ({"workers": 2}, {"lookahead": 1}, {"megabytes_per_second": 1e6}):
        figures = load(paths=paths, **{**SUMMED, **options})
        assert figures["checksum"] == plain["checksum"]
        assert (figures["requests"] > 0) == ("megabytes_per_second" in options)


def test_an_undecoded_loader_decodes_nothing(paths, monkeypatch):
    monkeypatch.setattr(JobWorker, "decode", JobWorker.decode)  # restores it after the test
    plain = load(paths=paths, **SUMMED)
    undecoded = load(paths=paths, decodes=False, **SUMMED)
    assert undecoded["frames"] > 0
    assert undecoded["checksum"] != plain["checksum"]


def test_a_slow_file_is_read_block_by_block(tmp_path):
    content = bytes(range(256)) * (BLOCK_BYTES // 128)
    (tmp_path / "file").write_bytes(content)
    network = Network(0.0, None)
    with SlowFile(tmp_path / "file", network) as file:
        assert b"".join(iter(lambda: file.read(100_000), b"")) == content
        assert network.requests == 2
        file.seek(BLOCK_BYTES - 1)
        assert file.read(10) == content[BLOCK_BYTES - 1 : BLOCK_BYTES]


def test_a_loader_with_another_first_batch_fails():
    def ask(request):
        times = {"wall_seconds": 1.0, "cpu_seconds": 1.0, "others_cpu_seconds": 0.0}
        return {**times, "frames": 500, "requests": 0, "checksum": request["workers"]}

    rows = [Loading(way="decoded", threads=1), Loading(way="decoded", threads=2)]
    timed = time_loaders([], {"seconds": 1.0}, rows, ask)
    assert [row.failure for row in timed] == [None, "its first batch differs"]


def test_the_planner_is_timed_alone():
    assert time_planning(2, 50, 0.0).requests >= 50


@pytest.mark.parametrize(
    ("threads", "processes", "share"), [(2.0, 2.0, 0.0), (1.0, 2.0, 1.0), (1.6, 2.0, 0.25)]
)
def test_the_serial_share_comes_from_threads_and_processes(threads, processes, share):
    assert cores.serial_share(threads, processes) == pytest.approx(share)
    assert cores.amdahl(share, 2) == pytest.approx(threads)


def test_each_file_is_opened_as_new_and_as_known(files, forked_workers):
    rows = time_opening(files)
    assert [row.name for row in rows] == ["open a new file (scan)", "open a known file"]
    assert [len(row.repeats) for row in rows] == [2, 2]


def test_both_openings_share_a_store_and_a_failure_stays_in_the_result():
    stores = []

    def ask(request):
        stores.append(request["store"])
        if len(stores) == 2:
            raise WorkerError("no such file")
        return {"seconds": [0.5]}

    new, known = time_opening([], ask)
    assert stores[0] == stores[1]
    assert new.repeats[0].wall_seconds == 0.5
    assert known.failure == "no such file"


def test_first_batches_are_compared_with_the_naive_variant_and_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_first_batch, "BATCH_SIZE", 4)
    monkeypatch.setattr(bench_first_batch, "SIZE", (48, 64))
    clips = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=30, gop=6)) for k in range(3)]
    rows = bench_first_batch.measure_kind("web", clips, repeats=2)
    assert [row.name for row in rows] == list(VARIANTS)
    for row in rows:
        assert row.failure is None
        assert [repeat.frames for repeat in row.repeats] == [4 * BATCHES] * 2
        assert all(0 < repeat.first_seconds <= repeat.wall_seconds for repeat in row.repeats)
    lines = first_batch(TimedResult(provenance=origin(), rows=tuple(rows))).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:6]] == list(VARIANTS)
    assert f"| web | {NAIVE} | " in lines[2]
    assert " | 1.00 | " in lines[2]


def test_each_variant_is_compared_and_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_proxy, "GOPS", (4,))
    monkeypatch.setattr(bench_proxy, "SIZE", (48, 64))
    monkeypatch.setattr(bench_proxy, "BATCH_SIZE", 8)
    clips = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=30, gop=30)) for k in range(2)]
    copies = bench_proxy.prepare(clips, tmp_path / "made")
    assert [copy.frames for copy in copies] == [60, 60]
    assert copies[0].psnr > 20
    requests = []

    def ask(request):
        requests.append(request)
        if request["case"] == "bench_proxy":
            raise WorkerError("no shards today")
        return answer_here(request)

    timing = {"seconds": 0.01, "warm_up_seconds": 0.01}
    rows = list(bench_proxy.contest(clips, tmp_path / "made", 5, timing, ask))
    failures = {row.name: row.failure for row in rows if row.failure}
    assert failures.pop(bench_proxy.SHARDS) == "no shards today"
    assert set(failures) <= {bench_proxy.FFCV}
    assert sum(request["case"] == "bench_proxy:proof" for request in requests) == len(
        bench_proxy.GOPS
    )
    assert all(row.repeats[0].frames >= 8 for row in rows if not row.failure)
    result = bench_proxy.ProxyResult(
        provenance=origin(size=(48, 64)), videos=2, made=copies, rows=tuple(rows)
    )
    lines = bench_proxy.proxied(result).splitlines()
    assert lines[2].startswith(f"| 5 files | {bench_proxy.ORIGINALS} | ")
    assert " | 1.0 | " in lines[2]


def test_a_proxy_with_wrong_frames_is_not_timed():
    task = {"proxies": "x", "paths": []}
    row = bench_proxy.time_row(
        Row(name="proxies", kind="5 files"), task, {}, lambda request: {"wrong": 3}
    )
    assert (row.failure, row.repeats) == ("3 frames are wrong", ())
