"""Variants of headrace on small real files."""

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
    """Return the plain decode of the clip."""
    return plain_decode(path, size=SIZE)


def task_of(path, folder, **change):
    fields = {"seconds": 60, "store": IndexStore(folder / "index")}
    fields |= {name: change.pop(name) for name in [*change] if name in fields}
    return Task(path=path, plan=Plan(size=SIZE, **{"places": 5, "planned": 30} | change), **fields)


@pytest.mark.parametrize("way", WAYS)
def test_frames_of_a_clean_clip_are_right_and_shifted_frames_are_wrong(
    way, path, reference, tmp_path
):
    verdict, judge = judge_way(way, task_of(path, tmp_path), reference)
    assert (verdict.kind, verdict.way, verdict.examples) == ("right", way, ())
    assert verdict.frames == {"seek": 5, "clip": 40}.get(way, 24)
    assert len(judge) == 24
    shifted = replace(reference, own=np.roll(reference.own, 1), small=np.roll(reference.small, 1))
    verdict, _ = judge_way(way, task_of(path, tmp_path), shifted)
    assert (verdict.kind, verdict.right) == ("wrong", 0)


@pytest.mark.parametrize("way", WAYS)
def test_only_the_frames_of_a_partial_plain_decode_are_compared(way, path, tmp_path):
    partial = plain_decode(path, size=SIZE, most_frames=13)
    verdict, _ = judge_way(way, task_of(path, tmp_path), partial)
    assert (verdict.kind, verdict.wrong) == ("right", 0)
    assert verdict.frames == {"seek": 5, "clip": 40}.get(way, 13)


@pytest.mark.parametrize(("way", "frames"), [("seek", 1), ("clip", 8), ("plan", 5)])
def test_a_variant_stops_at_its_time_limit(way, frames, path, reference, tmp_path):
    verdict, _ = judge_way(way, task_of(path, tmp_path, seconds=0), reference)
    assert (verdict.kind, verdict.frames) == ("right", frames)


@pytest.mark.parametrize("way", WAYS)
def test_damage_that_ffmpeg_reports_is_refused_with_a_complaint(way, path, tmp_path):
    bad = damage_packets(path, tmp_path / "bad.mp4", ordinals=[6])
    verdict, _ = judge_way(way, task_of(bad, tmp_path, places=24), plain_decode(bad, size=SIZE))
    assert verdict.kind == "refused with complaint"
    assert verdict.right > 0


@pytest.mark.parametrize("way", ["seek", "order"])
def test_an_unexpected_exception_is_a_traceback(way, path, reference, tmp_path):
    class Faulty(IndexStore):
        def load(self, source):
            raise IndexError("pop from an empty list")

    task = task_of(path, tmp_path, store=Faulty(tmp_path))
    verdict, _ = judge_way(way, task, reference)
    assert verdict.kind == "traceback"
    assert verdict.reason.startswith("IndexError: pop from an empty list | File ")


def test_all_frames_of_a_refused_file_are_refused(reference, tmp_path):
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
