"""bench_proxy: every way is proved and timed, over links of a few videos."""

from benchmarks import bench_proxy
from benchmarks.record import Row, origin
from benchmarks.worker import WorkerError, answer_here
from headrace.testing.synth import SynthClip, write_clip


def test_each_way_is_proved_and_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_proxy, "GOPS", (4,))
    monkeypatch.setattr(bench_proxy, "SIZE", (48, 64))
    monkeypatch.setattr(bench_proxy, "BATCH_SIZE", 8)
    clips = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=30, gop=30)) for k in range(2)]
    made = bench_proxy.prepare(clips, tmp_path / "made")
    assert [each.frames for each in made] == [60, 60]
    assert made[0].psnr > 20
    asked = []

    def ask(words):
        asked.append(words)
        if words["case"] == "bench_proxy":
            raise WorkerError("no shards today")
        return answer_here(words)

    timing = {"seconds": 0.01, "warm_up_seconds": 0.01}
    rows = list(bench_proxy.contest(clips, tmp_path / "made", 5, timing, ask))
    failures = {row.name: row.failure for row in rows if row.failure}
    assert failures.pop(bench_proxy.SHARDS) == "no shards today"
    assert set(failures) <= {bench_proxy.FFCV}
    assert sum(words["case"] == "bench_proxy:proof" for words in asked) == len(bench_proxy.GOPS)
    assert all(row.repeats[0].frames >= 8 for row in rows if not row.failure)
    result = bench_proxy.ProxyResult(
        provenance=origin(size=(48, 64)), videos=2, made=made, rows=tuple(rows)
    )
    lines = bench_proxy.proxied(result).splitlines()
    assert lines[2].startswith(f"| 5 files | {bench_proxy.ORIGINALS} | ")
    assert " | 1.0 | " in lines[2]


def test_a_proxy_that_shows_something_else_is_not_timed():
    asked = {"proxies": "x", "paths": []}
    row = bench_proxy.time_row(
        Row(name="proxies", kind="5 files"), asked, {}, lambda words: {"wrong": 3}
    )
    assert (row.failure, row.repeats) == ("3 frames are wrong", ())
