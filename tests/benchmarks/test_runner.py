"""Tests of benchmarks/runner.py: who is timed, in which order, and what becomes of failures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.runner import LibraryError, Workload, run

WORKLOAD = Workload(kind="web", paths=[Path("a.mp4")], size=(64, 64), workers=2)
MOVING = np.arange(5, dtype=np.float16)[:, None, None, None] * np.ones((32, 32, 3), np.float16)
TIMED = {
    "wall_seconds": 2.0,
    "first_seconds": 0.1,
    "cpu_seconds": 3.0,
    "others_cpu_seconds": 1.0,
    "frames": 5,
    "peak_rss_bytes": 1 << 20,
}


class Workers:
    """Answers as worker processes would, and keeps the order in which they were asked."""

    def __init__(self, **special: Any) -> None:
        self.special = special
        self.timed: list[str] = []

    def __call__(self, library: str, workload: Workload, thumbnails: Path | None) -> dict[str, Any]:
        special = self.special.get(library)
        if isinstance(special, LibraryError):
            raise special
        if thumbnails:
            np.savez(thumbnails, special if isinstance(special, np.ndarray) else MOVING)
            return {"versions": {library: "1.0"}}
        self.timed.append(library)
        return {**TIMED, "frames": special} if isinstance(special, int) else TIMED


def test_repeats_are_interleaved() -> None:
    workers = Workers()
    rows = run(["a", "b"], WORKLOAD, repeats=3, ask=workers)
    assert workers.timed == ["a", "b"] * 3
    assert [(row.library, row.versions, len(row.repeats)) for row in rows] == [
        ("a", {"a": "1.0"}, 3),
        ("b", {"b": "1.0"}, 3),
    ]
    assert rows[0].repeats[0].frames_per_second == 2.5
    assert rows[0].repeats[0].cpu_ms_per_frame == 600
    assert rows[0].repeats[0].others_share == 0.25


def test_a_library_with_wrong_frames_is_shown_and_not_timed() -> None:
    workers = Workers(off=MOVING[[0, 1, 1, 3, 4]])
    right, off = run(["right", "off"], WORKLOAD, repeats=2, ask=workers)
    assert workers.timed == ["right", "right"]
    assert right.is_sound
    assert off.equality is not None
    assert (off.equality.wrong, off.repeats, off.is_sound) == (1, (), False)


def test_a_library_that_fails_is_shown_with_its_reason() -> None:
    workers = Workers(broken=LibraryError("no decoder"))
    broken, right = run(["broken", "right"], WORKLOAD, repeats=2, ask=workers)
    assert (broken.failure, broken.repeats) == ("no decoder", ())
    assert len(right.repeats) == 2


def test_losing_frames_while_timed_is_a_failure() -> None:
    [row] = run(["loses"], WORKLOAD, repeats=2, ask=Workers(loses=4))
    assert (row.failure, row.repeats) == ("4 of 5 frames when timed", ())


def test_without_a_reference_nothing_is_timed() -> None:
    with pytest.raises(LibraryError, match="no PyAV"):
        run(["a"], WORKLOAD, repeats=1, ask=Workers(pyav_loop=LibraryError("no PyAV")))
