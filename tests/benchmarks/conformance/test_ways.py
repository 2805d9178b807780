"""Tests of benchmarks/conformance/ways.py: all ways over real small files."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.conformance.plain import plain_decode
from benchmarks.conformance.verdict import WAYS, Plan
from benchmarks.conformance.ways import Task, judge_refusal, judge_way
from conformance_fakes import write_numbers
from headrace import IndexStore
from headrace.testing.damage import damage_packets
from media import real_clip

SIZE = (32, 48)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return a clean clip."""
    return write_numbers(tmp_path_factory.mktemp("ways"))


@pytest.fixture(scope="module")
def reference(path):
    """Return its plain decode."""
    return plain_decode(path, size=SIZE)


def task_of(path, folder, **change):
    given = {"seconds": 60, "store": IndexStore(folder / "index")}
    given |= {name: change.pop(name) for name in [*change] if name in given}
    return Task(path=path, plan=Plan(size=SIZE, **{"places": 5, "planned": 30} | change), **given)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_a_clean_clip_right_and_is_seen_to_give_the_neighbour(
    way, path, reference, tmp_path
):
    """Turned by one frame, each frame of the plain decode is another than it says."""
    verdict, judge = judge_way(way, task_of(path, tmp_path), reference)
    assert (verdict.kind, verdict.way, verdict.examples) == ("right", way, ())
    assert verdict.frames == {"seek": 5, "clip": 40}.get(way, 24)
    assert len(judge) == 24
    rolled = replace(reference, own=np.roll(reference.own, 1), small=np.roll(reference.small, 1))
    verdict, _ = judge_way(way, task_of(path, tmp_path), rolled)
    assert (verdict.kind, verdict.right) == ("wrong", 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_plain_decode_that_ended_early_is_held_against_its_frames_alone(way, path, tmp_path):
    early = plain_decode(path, size=SIZE, most_frames=13)
    verdict, _ = judge_way(way, task_of(path, tmp_path), early)
    assert (verdict.kind, verdict.wrong) == ("right", 0)
    assert verdict.frames == {"seek": 5, "clip": 40}.get(way, 13)


@pytest.mark.parametrize(("way", "frames"), [("seek", 1), ("clip", 8), ("plan", 5)])
def test_a_way_that_is_late_ends_with_what_it_has_compared(way, frames, path, reference, tmp_path):
    verdict, _ = judge_way(way, task_of(path, tmp_path, seconds=0), reference)
    assert (verdict.kind, verdict.frames) == ("right", frames)


@pytest.mark.parametrize("way", WAYS)
def test_damage_that_ffmpeg_reports_is_refused_with_its_complaint(way, path, tmp_path):
    bad = damage_packets(path, tmp_path / "bad.mp4", ordinals=[6])
    verdict, _ = judge_way(way, task_of(bad, tmp_path, places=24), plain_decode(bad, size=SIZE))
    assert verdict.kind == "refused with complaint"
    assert verdict.right > 0


@pytest.mark.parametrize("way", ["seek", "order"])
def test_a_bug_is_a_traceback_and_says_where(way, path, reference, tmp_path):
    class Faulty(IndexStore):
        def load(self, source):
            raise IndexError("pop from an empty list")

    task = task_of(path, tmp_path, store=Faulty(tmp_path))
    verdict, _ = judge_way(way, task, reference)
    assert verdict.kind == "traceback"
    assert verdict.reason.startswith("IndexError: pop from an empty list | File ")


def test_a_file_that_is_refused_as_a_whole_is_refused_at_every_frame(reference, tmp_path):
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    verdict, judge = judge_way("seek", task_of(text, tmp_path), reference)
    assert (verdict.kind, verdict.refused_without, judge) == ("refused without", 24, None)
    assert judge_refusal(text).kind == "right"


def test_a_real_clip_is_right_by_plan(tmp_path):
    path = real_clip("gradio/b.avi")
    reference = plain_decode(path, size=SIZE)
    verdict, _ = judge_way("plan", task_of(path, tmp_path), reference)
    assert (verdict.kind, verdict.frames) == ("right", 30)
