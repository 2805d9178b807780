"""bench_proxy: every variant is compared and timed, over links to a few videos."""

from benchmarks import bench_proxy
from benchmarks.record import Row, origin
from benchmarks.worker import WorkerError, answer_here
from headrace.testing.synth import SynthClip, write_clip


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
