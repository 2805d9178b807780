"""The tables of camera streams and windows show what was measured."""

from benchmark_fakes import origin, result
from benchmarks.bench_camera_windows import WAYS, camera_windows
from benchmarks.bench_cameras import cameras
from benchmarks.record import Repeat, Row
from headrace.bench.cameras import CameraRun, CamerasRecord

ONE = {"ranks": 1, "workers": 2, "delivered": 1000, "decoded": 1000, "cpu_seconds": 8.0}


def record(*runs: CameraRun) -> CamerasRecord:
    return CamerasRecord(
        provenance=origin(workers="2"),
        clips=10,
        cameras=6,
        pictures=1000,
        compared=96,
        runs=runs,
    )


def test_each_way_has_a_row_and_the_speed_is_the_median_of_pairs():
    plain = CameraRun(way="decode", seconds=2.0, **ONE)
    grid = record(
        plain,
        CameraRun(way="loader", seconds=2.0, **ONE),
        CameraRun(way="wandering", seconds=4.0, **{**ONE, "decoded": 1960}),
        CameraRun(way="decode", seconds=2.0, **{**ONE, "ranks": 8}),
        CameraRun(way="loader", seconds=2.0, **{**ONE, "ranks": 8}),
        CameraRun(way="wandering", seconds=8.0, **{**ONE, "ranks": 8, "decoded": 11_040}),
    )
    loaders = [CameraRun(way="loader", seconds=s, **ONE) for s in (2.5, 2.0, 1.6)]
    speed = record(*(run for loader in loaders for run in (plain, loader)))
    lines = cameras(grid, speed).splitlines()
    assert lines[0] == "| amplification, ranks × workers | 1 × 2 | 8 × 2 |"
    assert lines[2:4] == [
        "| **CameraLoader** | 1.00 | 1.00 |",
        "| DataLoader, slots wander | 1.96 | 11.04 |",
    ]
    assert lines[5] == "| pictures/s of all ranks together | 1 × 2 | 8 × 2 |"
    assert lines[7:9] == [
        "| **CameraLoader** | 500 | 500 |",
        "| DataLoader, slots wander | 250 | 125 |",
    ]
    assert "2 threads reads 500 pictures/s, 1.00 (0.80–1.25) of decoding every file" in lines[10]


def test_published_figures_stand_below_ours_with_their_hardware():
    plain, loader = (CameraRun(way=way, seconds=2.0, **ONE) for way in ("decode", "loader"))
    both = record(plain, loader)
    quoted = cameras(both, both).splitlines()[-1]
    for said in ("2,481.54", "3,497.02 frames/s", "8 A100 GPUs", "EPYC 7J13", "NuScenes-mini"):
        assert said in quoted
    assert quoted.endswith("Those GPUs decode; above, processor cores do.")


def test_each_way_is_held_against_the_naive_one_of_its_turn() -> None:
    speeds = {"naive": (10, 20), "headrace": (80, 100)}
    rows = (
        Row(
            name=name,
            repeats=tuple(
                Repeat(wall_seconds=1.0, frames=frames, decoded=2 * frames)
                for frames in speeds.get(name, (30, 30))
            ),
        )
        for name in WAYS
    )
    made = result(*rows).model_copy(update={"media": {"clips": 2, "frames": [240, 240]}})
    said = {"repeats": 2, "seconds": 1.0, "memory_budget": "1GiB"}
    provenance = made.provenance.model_copy(update={"configuration": said})
    lines = camera_windows(made.model_copy(update={"provenance": provenance})).splitlines()
    assert lines[4] == "| **CameraWindowLoader** | 90 (80–100) | 6.5 (5.0–8.0) | 2.00 |"
