"""bench_remote: each variant reads equal frames, and its requests are counted."""

from urllib.request import Request, urlopen

import pytest

from benchmarks.bench_remote import REMOTE, VARIANTS, answer, contest, object_store
from benchmarks.worker import WorkerError
from headrace.testing.synth import SynthClip, write_clip

BY_FSSPEC_OVER_HTTP = {"fsspec_http", "fsspec_blocks", "download_first"}
"""Variants that need aiohttp, which the tests do not install."""


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("remote")
    return write_clip(folder / "clip", SynthClip(num_frames=40, gop=20, b_frames=2))


def test_the_store_sends_the_requested_range_and_counts(tmp_path):
    (tmp_path / "object").write_bytes(bytes(range(100)))
    with object_store(tmp_path, 0.0) as (address, served):
        for span, expected in (("bytes=5-9", range(5, 10)), ("bytes=90-", range(90, 100))):
            with urlopen(Request(f"{address}/object", headers={"Range": span})) as response:
                assert (response.status, response.read()) == (206, bytes(expected))
        with urlopen(f"{address}/object") as response:
            assert (response.status, len(response.read())) == (200, 100)
    assert served == {"requests": 3, "sent_bytes": 115}


@pytest.mark.parametrize("way", sorted({*VARIANTS} - BY_FSSPEC_OVER_HTTP))
@pytest.mark.parametrize("pattern", ["scan", "every", "random"])
def test_each_variant_reads_the_frames_of_the_local_path(clip, way, pattern):
    with object_store(clip.parent, 0.0) as (address, served):
        request = {"path": str(clip), "url": f"{address}/{clip.name}", "pattern": pattern}
        figures = answer(way=way, **request)
        assert figures["checksum"] == answer(way="path", **request)["checksum"]
    assert figures["frames"] == (16 if pattern == "random" else 40)
    assert (served["requests"] > 0) == (way in REMOTE)
    assert (figures["reads"] > 0) == (way not in {"path", *REMOTE})


def test_variants_with_other_frames_or_an_error_fail(clip):
    def ask(request):
        if request["way"] == "fsspec_http":
            raise WorkerError("No module named 'aiohttp'")
        counts = dict.fromkeys(("reads", "read_bytes", "seeks"), 0)
        checksum = 2 if request["way"] == "ffmpeg_http" else 1
        return {"wall_seconds": 1.0, "frames": 40, "checksum": checksum, **counts}

    rows = contest(clip, "every", 2, latencies_ms=(20,), ask=ask)
    assert {row.way: row.failure for row in rows if row.failure} == {
        "fsspec_http": "No module named 'aiohttp'",
        "ffmpeg_http": "its frames differ from the local file's",
    }
    assert {row.way: row.latency_ms for row in rows if not row.failure} == {
        **dict.fromkeys(("path", "python_file", "fsspec_local", "fsspec_memory")),
        **{"fsspec_blocks": 20, "download_first": 20},
    }
    assert all(len(row.repeats) == 2 for row in rows if not row.failure)
