"""Randomly drawn files, and one file of each recipe."""

from random import Random

import pytest

from benchmarks.conformance import draws
from benchmarks.conformance.draws import draw_of, judge_draw, judge_draws, random_jobs, row_of
from benchmarks.conformance.plain import plain_decode
from benchmarks.conformance.process import Ended
from benchmarks.conformance.verdict import HEADRACE, DrawCount, DrawRow, DrawsResult, Plan, Verdict
from benchmarks.conformance.ways import Task, judge_way
from conformance_fakes import reference_of
from headrace.decode.index_store import IndexStore
from headrace.testing.synth import SynthClip
from tests.kit.synth_draw import Draw
from tests.kit.synth_recipes import RECIPES, write_recipe


def test_jobs_cover_all_kinds_and_stay_inside_the_file():
    reference = reference_of([0] * 30, keyframes=[0, 12, 24])
    jobs = random_jobs(reference, Random(1))
    assert {job.goes_on for job in jobs} == {True, False}
    assert {len(job.wanted) for job in jobs} >= {1, 2, 4}
    assert any(min(job.wanted) < 12 <= max(job.wanted) for job in jobs)
    assert all(0 <= min(job.wanted) <= max(job.wanted) < 30 for job in jobs)
    assert random_jobs(reference, Random(1)) == jobs
    assert random_jobs(reference_of([]), Random(1)) == []


def test_a_clean_draw_is_right_by_both_variants(tmp_path):
    draw = Draw(clip=SynthClip(num_frames=20, gop=5, b_frames=2))
    row = judge_draw(draw, 0, 3, tmp_path)
    assert (row.number, row.codec, row.container, row.frames) == (3, "h264", "mp4", 20)
    assert [(v.way, v.kind) for v in row.verdicts] == [("jobs", "right"), ("one pass", "right")]
    assert not row.is_fault


def test_a_draw_that_cannot_be_encoded_has_the_reason(tmp_path):
    row = judge_draw(Draw(clip=SynthClip()), 0, 3, tmp_path / "gone")
    assert row.not_made.startswith("FileNotFoundError")
    assert row.verdicts == ()


def test_draws_are_repeatable():
    assert draw_of(0, 7) == draw_of(0, 7)
    assert draw_of(0, 7) != draw_of(1, 7)


def test_damaged_draws_of_a_codec_can_be_selected():
    numbers = draws.draw_numbers(5, 0, codec="hevc", is_damaged=True)
    selected = [draw_of(0, number) for number in numbers]
    assert [(draw.clip.codec, draw.is_damaged) for draw in selected] == [("hevc", True)] * 5
    assert draws.draw_numbers(3, 0, codec=None, is_damaged=False) == [0, 1, 2]


def test_a_run_is_printed_and_saved(tmp_path, capsys):
    out = tmp_path / "draws.json"
    status = draws.main(draws=3, seed=5, out=out)
    result = DrawsResult.load(out)
    assert (result.seed, result.total.draws + result.not_made) == (5, 3)
    assert sum(count.draws for count in result.codecs) == result.total.draws
    assert status == (1 if result.faults else 0)
    assert "all: 3 files" in capsys.readouterr().out


def test_a_draw_that_hangs_is_a_fault_and_later_draws_are_read():
    requested: list[tuple[int, ...]] = []

    def ask(request):
        requested.append(tuple(request.items))
        numbers = [number for number in request.items if number < 2 or request.items[0] > 2]
        answers = [row_of(draw_of(0, number), number).model_dump() for number in numbers]
        return Ended("hang" if len(requested) == 1 else "done", "no answer", answers=answers)

    rows = list(draws.judge_draws(range(5), 0, 9, ask=ask))
    assert requested == [(0, 1, 2, 3, 4), (3, 4)]
    assert [row.number for row in rows] == [0, 1, 2, 3, 4]
    assert [row.is_fault for row in rows] == [False, False, True, False, False]
    assert (rows[2].verdicts[0].kind, rows[2].name) == ("hang", draw_of(0, 2).name)


def test_a_file_counts_by_its_worst_verdict():
    """A wrong frame is worse than a frame refused with a complaint of FFmpeg."""
    verdicts = (
        Verdict(party=HEADRACE, way="jobs", right=3, refused_with=2),
        Verdict(party=HEADRACE, way="one pass", right=4, wrong=1),
    )
    row = DrawRow(number=1, name="clip", codec="h264", container="mp4", verdicts=verdicts)
    assert DrawCount.of([row.verdicts], what="all", draws=1).files["wrong"] == 1
    assert row.is_fault


WAYS = ("seek", "plan", "clip", "order")


@pytest.mark.parametrize("name", RECIPES)
def test_every_variant_delivers_the_frames_of_a_plain_decode(name, tmp_path):
    path = write_recipe(name, tmp_path)
    reference = plain_decode(path, size=(64, 64))
    faults = []
    for way in WAYS:
        plan, store = Plan(places=12, planned=60, seed=1), IndexStore(tmp_path / way)
        task = Task(path=path, plan=plan, seconds=300, store=store)
        verdict, _ = judge_way(way, task, reference)
        if verdict.kind not in ("right", "refused with complaint"):
            faults.append((way, verdict.kind, verdict.examples, verdict.reason))
    assert faults == []


def test_random_files_have_no_faults(monkeypatch):
    """A hundred draws; `python -m benchmarks.conformance.draws` reads a thousand others."""
    monkeypatch.setattr(draws, "_PER_PROCESS", 100)
    rows = list(judge_draws(range(100), seed=12, limit_seconds=600))
    assert len([row for row in rows if row.frames]) > 80, "few draws could be encoded"
    assert [(row.number, row.name) for row in rows if row.is_fault] == []


def test_recipes_give_different_files(tmp_path):
    written = [write_recipe(name, tmp_path).read_bytes() for name in list(RECIPES)[:8]]
    assert len(set(written)) == len(written)
