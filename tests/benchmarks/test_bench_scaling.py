"""bench_scaling: many files out of few, new and known."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmark_fakes import result
from benchmarks.bench_scaling import measured, scaling
from benchmarks.loading import know, link_files, load
from benchmarks.record import Repeat, Row
from benchmarks.worker import WorkerError, ask_worker
from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.testing.synth import SynthClip, write_clip

TASK: dict[str, Any] = {
    "size": (16, 16),
    "batch_size": 4,
    "workers": 1,
    "memory_budget": "1MiB",
    "warm_up_seconds": 30.0,
    "seconds": 0.01,
}
KNOWN = {"open_seconds": 0.5, "first_seconds": 1.0, "frames": 8, "wall_seconds": 2.0}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12, gop=6)) for k in range(2)]


@pytest.fixture
def links(files: list[Path], tmp_path: Path) -> list[Path]:
    found = link_files(files, tmp_path / "videos", 5)
    know(files, found, IndexStore(tmp_path / "known"))
    return found


def test_links_go_round_the_videos(files: list[Path], links: list[Path]) -> None:
    assert [link.read_bytes() for link in links] == [
        files[number].read_bytes() for number in (0, 1, 0, 1, 0)
    ]


def test_all_links_are_known_though_only_the_videos_were_scanned(
    links: list[Path], tmp_path: Path
) -> None:
    store = IndexStore(tmp_path / "known")
    assert [len(open_index(link, store)) for link in links] == [12] * 5
    assert (store.counters.hits, store.counters.misses) == (5, 0)


def test_a_loader_of_links_is_opened_and_timed(links: list[Path], tmp_path: Path) -> None:
    paths = list(map(str, links))
    known = str(tmp_path / "known")
    found = Repeat(**load(paths=paths, store=known, counts_files=True, **TASK))
    assert found.is_filled
    assert found.lookahead is not None
    assert found.lookahead > 4
    assert found.frames > 0
    assert found.open_files is not None
    assert 1 <= found.open_files < 20


def test_without_seconds_nothing_is_decoded(links: list[Path], tmp_path: Path) -> None:
    task = {**TASK, "seconds": None}
    found = load(paths=list(map(str, links)), store=str(tmp_path / "new"), **task)
    assert list(found) == ["open_seconds"]
    assert len(list((tmp_path / "new").iterdir())) == 5


@pytest.mark.parametrize(("scans", "scan_seconds"), [(True, 3.0), (False, None)])
def test_a_set_is_opened_as_new_only_where_it_is_small(
    tmp_path: Path, scans: bool, scan_seconds: float | None
) -> None:
    asked = []

    def ask(request: Mapping[str, Any]) -> dict[str, Any]:
        asked.append((Path(request["store"]).name, request["seconds"]))
        return KNOWN if request["seconds"] else {"open_seconds": 3.0}

    row = measured([Path("a.mp4")], tmp_path, TASK, scans=scans, ask=ask)
    [found] = row.repeats
    assert (row.kind, found.scan_seconds, found.open_seconds) == ("1 files", scan_seconds, 0.5)
    assert asked == [("unknown-1", None), ("known", 0.01)][not scans :]


def test_each_size_has_a_process_of_its_own_and_its_failure_is_kept(tmp_path: Path) -> None:
    row = measured([tmp_path / "gone.mp4"], tmp_path, TASK, scans=False, ask=ask_worker)
    assert row.failure is not None
    assert "cannot open" in row.failure


def test_a_process_that_hangs_is_a_failure(tmp_path: Path) -> None:
    def ask(request: Mapping[str, Any]) -> dict[str, Any]:
        raise WorkerError("no answer within 600 seconds")

    row = measured([Path("a.mp4")], tmp_path, TASK, scans=False, ask=ask)
    assert row.failure == "no answer within 600 seconds"


SMALL = Repeat(
    scan_seconds=0.2,
    open_seconds=0.01,
    first_seconds=1.5,
    lookahead=5000,
    warm_up_frames=5120,
    frames=20_000,
    wall_seconds=20.0,
    cpu_seconds=38.0,
    others_cpu_seconds=2.5,
    decoded=16_000,
    open_files=10,
    memory_bytes=900 << 20,
)
LARGE = SMALL.model_copy(
    update={
        "scan_seconds": None,
        "open_seconds": 11.4,
        "warm_up_frames": 2048,
        "frames": 640,
        "decoded": 20_480,
        "others_cpu_seconds": 0.0,
        "open_files": 93,
    }
)
ROWS = (
    Row(name="headrace", kind="10 files", repeats=(SMALL,)),
    Row(name="headrace", kind="1,000 files", failure="killed | out of memory"),
    Row(name="headrace", kind="10,000 files", repeats=(LARGE,)),
)
ASKED = {
    "batch_size": 128,
    "memory_budget": "1GiB",
    "warm_up_seconds": 60.0,
    "seconds": 20.0,
    "scan_at_most": 1000,
    "videos": 40,
}


def test_each_size_has_a_row_and_what_failed_stays_in() -> None:
    lines = scaling(result(*ROWS, **ASKED)).splitlines()
    assert lines[0].startswith("|  | open, new | open, known | first batch | frames/s |")
    assert lines[2:5] == [
        "| 10 files | 0.20 s | 0.01 s | 1.50 s | 1,000 | 0.80 | 900 MiB | 10 |",
        "| 1,000 files | failed: killed / out of memory |  |  |  |  |  |  |",
        "| 10,000 files |  | 11 s | 1.50 s | 32* | 32.00* | 900 MiB | 93 |",
    ]
    assert "after at most 60 s of warm-up" in lines[6]
    assert lines[7].startswith("\\*: still filling its window")
    assert "in 1 of 2 runs, 6% in the worst. Some CPU, 2 cores, 8 GiB" in lines[-1]


def test_the_star_is_explained_only_where_there_is_one() -> None:
    assert "\\*" not in scaling(result(ROWS[0], **ASKED))
