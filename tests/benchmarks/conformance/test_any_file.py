"""Files of every kind there is a recipe for, and files drawn at random, held against FFmpeg."""

from pathlib import Path

import pytest

from benchmarks.conformance.draws import judged
from benchmarks.conformance.plain import plain_decode
from benchmarks.conformance.ways import Task, judge_way
from headrace.decode.index_store import IndexStore
from tests.kit.synth_recipes import RECIPES, write_recipe

WAYS = ("seek", "plan", "clip", "order")


@pytest.mark.parametrize("name", RECIPES)
def test_every_way_into_a_file_gives_what_a_plain_decode_gives(name, tmp_path):
    path = write_recipe(name, tmp_path)
    reference, _ = plain_decode(path)
    faults = []
    for way in WAYS:
        task = Task(
            path=path,
            size=(64, 64),
            places=12,
            planned=60,
            seed=1,
            seconds=300,
            store=IndexStore(tmp_path / way),
        )
        verdict, _ = judge_way(way, task, reference)
        if verdict.kind not in ("right", "refused with complaint"):
            faults.append((way, verdict.kind, verdict.examples, verdict.reason))
    assert faults == []


def test_files_drawn_at_random_come_out_right_by_every_entry():
    """A hundred of them; `python -m benchmarks.conformance.draws` draws a thousand others."""
    rows = list(judged(range(100), seed=12, limit_seconds=600))
    assert len([row for row in rows if row.frames]) > 80, "hardly any could be made"
    assert [(row.number, row.name) for row in rows if row.is_fault] == []


def test_a_recipe_is_a_file_of_its_own(tmp_path: Path):
    """The recipes cannot pass by being the same clip over and over."""
    written = [write_recipe(name, tmp_path).read_bytes() for name in list(RECIPES)[:8]]
    assert len(set(written)) == len(written)
