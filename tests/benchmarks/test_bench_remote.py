"""bench_remote: each way reads the same frames; what it asked is known."""

from urllib.request import Request, urlopen

import pytest

from benchmarks.bench_remote import REMOTE, WAYS, answer, contest, object_store
from benchmarks.worker import WorkerError
from headrace.testing.synth import SynthClip, write_clip

BY_FSSPEC_OVER_HTTP = {"fsspec_http", "fsspec_blocks", "download_first"}
"""They need aiohttp, which only the benchmark does."""


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("remote")
    return write_clip(folder / "clip", SynthClip(num_frames=40, gop=20, b_frames=2))


def test_the_store_gives_the_part_that_is_asked_for_and_counts(tmp_path):
    (tmp_path / "object").write_bytes(bytes(range(100)))
    with object_store(tmp_path, 0.0) as (address, served):
        for asked, expected in (("bytes=5-9", range(5, 10)), ("bytes=90-", range(90, 100))):
            with urlopen(Request(f"{address}/object", headers={"Range": asked})) as found:
                assert (found.status, found.read()) == (206, bytes(expected))
        with urlopen(f"{address}/object") as found:
            assert (found.status, len(found.read())) == (200, 100)
    assert served == {"requests": 3, "sent_bytes": 115}


@pytest.mark.parametrize("way", sorted({*WAYS} - BY_FSSPEC_OVER_HTTP))
@pytest.mark.parametrize("pattern", ["scan", "every", "random"])
def test_each_way_reads_what_is_read_by_the_path(clip, way, pattern):
    with object_store(clip.parent, 0.0) as (address, served):
        asked = {"path": str(clip), "url": f"{address}/{clip.name}", "pattern": pattern}
        found = answer(way=way, **asked)
        assert found["checksum"] == answer(way="path", **asked)["checksum"]
    assert found["frames"] == (16 if pattern == "random" else 40)
    assert (served["requests"] > 0) == (way in REMOTE)
    assert (found["reads"] > 0) == (way not in {"path", *REMOTE})


def test_a_way_that_gives_other_frames_or_none_has_failed(clip):
    def ask(asked):
        if asked["way"] == "fsspec_http":
            raise WorkerError("No module named 'aiohttp'")
        counts = dict.fromkeys(("reads", "read_bytes", "seeks"), 0)
        checksum = 2 if asked["way"] == "ffmpeg_http" else 1
        return {"wall_seconds": 1.0, "frames": 40, "checksum": checksum, **counts}

    rows = contest(clip, "every", 2, latencies_ms=(20,), ask=ask)
    assert {row.way: row.failure for row in rows if row.failure} == {
        "fsspec_http": "No module named 'aiohttp'",
        "ffmpeg_http": "other frames than by the path",
    }
    assert {row.way: row.latency_ms for row in rows if not row.failure} == {
        **dict.fromkeys(("path", "python_file", "fsspec_local", "fsspec_memory")),
        **{"fsspec_blocks": 20, "download_first": 20},
    }
    assert all(len(row.repeats) == 2 for row in rows if not row.failure)
