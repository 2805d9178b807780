"""Tests of benchmarks/compare.py: a run is proved, timed and kept, and goes on where it ended."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import media
from benchmarks.compare import run, way
from benchmarks.record import TimedResult
from benchmarks.runner import Entrant
from headrace.testing.synth import SynthClip, write_clip

ENTRANTS = [Entrant(name=name, asked={"library": name}) for name in ("pyav_loop", "headrace")]


def compare(root: Path, *words: str) -> TimedResult:
    usual = ["--media", str(root), "--count", "1", "--kinds", "web", "--workers", "1"]
    out = root / "out.json"
    run(
        "How fast?",
        ENTRANTS,
        question="every_frame",
        out="none",
        words=[*usual, "--out", str(out), *words],
    )
    return TimedResult.load(out)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = media.folder(tmp_path) / "web"
    folder.mkdir(parents=True)
    write_clip(folder / "000", SynthClip(num_frames=24, size=(64, 96), gop=6, b_frames=2))
    return tmp_path


def test_a_run_is_kept_and_goes_on_where_it_ended(root: Path) -> None:
    first = compare(root, "--repeats", "1", "--libraries", "headrace")
    assert [(row.name, row.kind, len(row.repeats)) for row in first.rows] == [
        ("headrace", "web", 1)
    ]
    assert first.provenance.configuration["size"] == "256,256"
    assert first.media["kinds"]["web"]["mean_gop"] == 6
    both = compare(root, "--repeats", "1", "--resume")
    assert [row.name for row in both.rows] == ["pyav_loop", "headrace"]
    assert both.rows[1] == first.rows[0]
    assert all(row.is_sound and row.repeats[0].frames == 24 for row in both.rows)
    with pytest.raises(SystemExit, match=r"other conditions \(configuration\)"):
        compare(root, "--repeats", "2", "--resume")


def test_videos_that_are_missing_are_named_with_their_command(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"make them with: python -m benchmarks\.media"):
        compare(tmp_path)


@pytest.mark.parametrize(
    ("asked", "name"),
    [({}, "headrace"), ({"memory_budget": "1GiB", "hold": "yuv420"}, "headrace_1GiB_yuv420")],
)
def test_a_way_is_named_for_what_it_may_use(asked: dict[str, Any], name: str) -> None:
    found = way("headrace", **asked)
    assert (found.name, found.asked) == (name, {"way": "headrace", **asked})
