"""bench_cores: the same frames in every way; what follows for more cores."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_cores as cores
from benchmarks.bench_cores import Loading, loaded, planned
from benchmarks.loading import BLOCK_BYTES, Network, SlowFile, load
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.decoding import JobDecoder

TASK: dict[str, Any] = {
    "size": (16, 16),
    "batch_size": 4,
    "workers": 1,
    "memory_budget": "1MiB",
    "lookahead": None,
    "seed": 1,
    "has_checksum": True,
    "warm_up_seconds": 0.0,
    "seconds": 0.01,
}


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    made = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12, gop=6)) for k in range(2)]
    return [str(path) for path in made]


def test_every_way_gives_the_frames_of_the_plain_one(paths: list[str]) -> None:
    plain = load(paths=paths, **TASK)
    for asked in ({"workers": 2}, {"lookahead": 1}, {"megabytes_per_second": 1e6}):
        found = load(paths=paths, **{**TASK, **asked})
        assert found["checksum"] == plain["checksum"]
        assert (found["requests"] > 0) == ("megabytes_per_second" in asked)


def test_all_but_decoding_decodes_nothing(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobDecoder, "_decode", JobDecoder._decode)  # so that it comes back
    plain = load(paths=paths, **TASK)
    found = load(paths=paths, decodes=False, **TASK)
    assert found["frames"] > 0
    assert found["checksum"] != plain["checksum"]


def test_a_slow_file_is_that_file_a_block_at_a_time(tmp_path: Path) -> None:
    content = bytes(range(256)) * (BLOCK_BYTES // 128)
    (tmp_path / "file").write_bytes(content)
    network = Network(0.0, None)
    with SlowFile(tmp_path / "file", network) as file:
        assert b"".join(iter(lambda: file.read(100_000), b"")) == content
        assert network.requests == 2
        file.seek(BLOCK_BYTES - 1)
        assert file.read(10) == content[BLOCK_BYTES - 1 : BLOCK_BYTES]


def found(checksum: int, others: float = 0.0) -> dict[str, Any]:
    repeat = {"wall_seconds": 1.0, "cpu_seconds": 1.0, "frames": 500, "others_cpu_seconds": others}
    return {**repeat, "requests": 0, "checksum": checksum}


def test_a_way_with_another_first_batch_has_failed() -> None:
    rows = [Loading(way="decoded", threads=1), Loading(way="decoded", threads=2)]
    timed = list(loaded([], {"seconds": 1.0}, rows, lambda asked: found(asked["workers"])))
    assert [row.failure for row in timed] == [None, "its first batch is another"]


def test_the_planner_is_timed_alone() -> None:
    assert planned((2, 50), 0.0).requests >= 50


@pytest.mark.parametrize(
    ("threads", "processes", "share"), [(2.0, 2.0, 0.0), (1.0, 2.0, 1.0), (1.6, 2.0, 0.25)]
)
def test_what_threads_lack_of_processes_is_serial(
    threads: float, processes: float, share: float
) -> None:
    assert cores.serial_share(threads, processes) == pytest.approx(share)
    assert cores.amdahl(share, 2) == pytest.approx(threads)
