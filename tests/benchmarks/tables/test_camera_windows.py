"""Tests of benchmarks/tables/camera_windows.py."""

from benchmark_fakes import result
from benchmarks.record import Repeat, Row
from benchmarks.tables.camera_windows import WAYS, camera_windows


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
