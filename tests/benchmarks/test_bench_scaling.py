"""bench_scaling: many files out of few, new and known."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bench_scaling import measured
from benchmarks.loading import know, link_files, load
from benchmarks.record import Repeat
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
