"""Tests of benchmarks/conformance/ways.py: all ways over real small files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.conformance.plain import plain_decode
from benchmarks.conformance.verdict import WAYS
from benchmarks.conformance.ways import Task, judge_refusal, judge_way
from conformance_fakes import write_numbers
from headrace.decode.index_store import IndexStore
from headrace.testing.damage import damage_packets
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex
from media import real_clip

SIZE = (32, 48)


def task_of(path: Path, folder: Path) -> Task:
    return Task(
        path=path,
        size=SIZE,
        places=5,
        planned=30,
        seed=0,
        seconds=60,
        store=IndexStore(folder / "index"),
    )


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_a_clean_clip_right(way: str, tmp_path: Path) -> None:
    path = write_numbers(tmp_path)
    reference = plain_decode(path, size=SIZE)
    verdict, judge = judge_way(way, task_of(path, tmp_path), reference)
    assert (verdict.kind, verdict.way, verdict.examples) == ("right", way, ())
    assert verdict.frames == {"seek": 5, "plan": 24, "clip": 40}.get(way, 24)
    assert judge is not None
    assert len(judge) == 24


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_seen_to_give_the_neighbour(way: str, tmp_path: Path) -> None:
    """The plain decode is turned by one frame, so every frame is another than it says."""
    path = write_numbers(tmp_path)
    reference = plain_decode(path, size=SIZE)
    rolled = replace(reference, own=np.roll(reference.own, 1), small=np.roll(reference.small, 1))
    verdict, _ = judge_way(way, task_of(path, tmp_path), rolled)
    assert (verdict.kind, verdict.right) == ("wrong", 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_plain_decode_that_ended_early_is_held_against_its_frames_alone(
    way: str, tmp_path: Path
) -> None:
    path = write_numbers(tmp_path)
    reference = plain_decode(path, size=SIZE, most_frames=13)
    verdict, _ = judge_way(way, task_of(path, tmp_path), reference)
    assert (verdict.kind, verdict.wrong) == ("right", 0)
    assert verdict.frames == {"seek": 5, "clip": 40}.get(way, 13)


def test_a_way_that_is_late_ends_with_what_it_has_compared(tmp_path: Path) -> None:
    path = write_numbers(tmp_path)
    reference = plain_decode(path, size=SIZE)
    for way, frames in (("seek", 1), ("clip", 8), ("plan", 5)):
        task = replace(task_of(path, tmp_path), seconds=0)
        verdict, _ = judge_way(way, task, reference)
        assert (verdict.kind, verdict.frames) == ("right", frames)


@pytest.mark.parametrize("way", WAYS)
def test_damage_that_ffmpeg_reports_is_refused_with_its_complaint(way: str, tmp_path: Path) -> None:
    path = damage_packets(write_numbers(tmp_path), tmp_path / "bad.mp4", ordinals=[6])
    reference = plain_decode(path, size=SIZE)
    verdict, _ = judge_way(way, replace(task_of(path, tmp_path), places=24), reference)
    assert verdict.kind == "refused with complaint"
    assert verdict.right > 0


@pytest.mark.parametrize("way", ["seek", "order"])
def test_a_bug_is_a_traceback_and_says_where(way: str, tmp_path: Path) -> None:
    path = write_numbers(tmp_path)
    reference = plain_decode(path, size=SIZE)

    class Faulty(IndexStore):
        def load(self, source: Source) -> StreamIndex:
            raise IndexError("pop from an empty list")

    task = replace(task_of(path, tmp_path), store=Faulty(tmp_path))
    verdict, _ = judge_way(way, task, reference)
    assert verdict.kind == "traceback"
    assert verdict.reason.startswith("IndexError: pop from an empty list | File ")


def test_a_file_that_is_refused_as_a_whole_is_refused_at_every_frame(tmp_path: Path) -> None:
    path = write_numbers(tmp_path)
    reference = plain_decode(path, size=SIZE)
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    verdict, judge = judge_way("seek", task_of(text, tmp_path), reference)
    assert (verdict.kind, verdict.refused_without, judge) == ("refused without", 24, None)
    assert judge_refusal(text).kind == "right"


def test_a_real_clip_is_right_by_plan(tmp_path: Path) -> None:
    path = real_clip("gradio/b.avi")
    reference = plain_decode(path, size=SIZE)
    verdict, _ = judge_way("plan", task_of(path, tmp_path), reference)
    assert (verdict.kind, verdict.frames) == ("right", 30)
