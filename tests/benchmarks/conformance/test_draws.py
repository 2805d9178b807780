"""Files drawn at random, and files of every kind there is a recipe for."""

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


def test_jobs_enter_everywhere_and_stay_inside():
    reference = reference_of([0] * 30, keyframes=[0, 12, 24])
    jobs = random_jobs(reference, Random(1))
    assert {goes_on for job in jobs for goes_on in [job.goes_on]} == {True, False}
    assert {len(job.wanted) for job in jobs} >= {1, 2, 4}
    assert any(min(job.wanted) < 12 <= max(job.wanted) for job in jobs)
    assert all(0 <= min(job.wanted) <= max(job.wanted) < 30 for job in jobs)
    assert random_jobs(reference, Random(1)) == jobs
    assert random_jobs(reference_of([]), Random(1)) == []


def test_a_clean_draw_is_right_in_both_ways(tmp_path):
    draw = Draw(clip=SynthClip(num_frames=20, gop=5, b_frames=2))
    row = judge_draw(draw, 0, 3, tmp_path)
    assert (row.number, row.codec, row.container, row.frames) == (3, "h264", "mp4", 20)
    assert [(v.way, v.kind) for v in row.verdicts] == [("jobs", "right"), ("one pass", "right")]
    assert not row.is_fault


def test_what_cannot_be_made_is_said(tmp_path):
    row = judge_draw(Draw(clip=SynthClip()), 0, 3, tmp_path / "gone")
    assert row.not_made.startswith("FileNotFoundError")
    assert row.verdicts == ()


def test_draws_are_the_same_again():
    assert draw_of(0, 7) == draw_of(0, 7)
    assert draw_of(0, 7) != draw_of(1, 7)


def test_damaged_draws_of_a_codec_are_chosen_alone():
    found = draws.draw_numbers(5, 0, codec="hevc", is_damaged=True)
    drawn_ones = [draw_of(0, number) for number in found]
    assert [(each.clip.codec, each.is_damaged) for each in drawn_ones] == [("hevc", True)] * 5
    assert draws.draw_numbers(3, 0, codec=None, is_damaged=False) == [0, 1, 2]


def test_a_run_is_printed_and_kept(tmp_path, capsys):
    kept = tmp_path / "draws.json"
    status = draws.main(draws=3, seed=5, out=kept)
    result = DrawsResult.load(kept)
    assert (result.seed, result.total.draws + result.not_made) == (5, 3)
    assert sum(count.draws for count in result.codecs) == result.total.draws
    assert status == (1 if result.faults else 0)
    assert "all: 3 files" in capsys.readouterr().out


def test_a_draw_that_hangs_is_named_and_those_behind_it_are_read():
    asked: list[tuple[int, ...]] = []

    def ask(request):
        asked.append(tuple(request.items))
        numbers = [number for number in request.items if number < 2 or request.items[0] > 2]
        answers = [row_of(draw_of(0, number), number).model_dump() for number in numbers]
        return Ended("hang" if len(asked) == 1 else "done", "no answer", answers=answers)

    rows = list(draws.judge_draws(range(5), 0, 9, ask=ask))
    assert asked == [(0, 1, 2, 3, 4), (3, 4)]
    assert [row.number for row in rows] == [0, 1, 2, 3, 4]
    assert [row.is_fault for row in rows] == [False, False, True, False, False]
    assert (rows[2].verdicts[0].kind, rows[2].name) == ("hang", draw_of(0, 2).name)


def test_a_file_counts_by_the_worst_of_its_verdicts():
    """A wrong frame is worse than one that is refused where FFmpeg complains too."""
    verdicts = (
        Verdict(party=HEADRACE, way="jobs", right=3, refused_with=2),
        Verdict(party=HEADRACE, way="one pass", right=4, wrong=1),
    )
    row = DrawRow(number=1, name="clip", codec="h264", container="mp4", verdicts=verdicts)
    assert DrawCount.of([row.verdicts], what="all", draws=1).files["wrong"] == 1
    assert row.is_fault


WAYS = ("seek", "plan", "clip", "order")


@pytest.mark.parametrize("name", RECIPES)
def test_every_way_into_a_file_gives_what_a_plain_decode_gives(name, tmp_path):
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


def test_files_drawn_at_random_come_out_right_by_every_entry(monkeypatch):
    """A hundred of them; `python -m benchmarks.conformance.draws` draws a thousand others."""
    monkeypatch.setattr(draws, "_AT_ONCE", 100)
    rows = list(judge_draws(range(100), seed=12, limit_seconds=600))
    assert len([row for row in rows if row.frames]) > 80, "hardly any could be made"
    assert [(row.number, row.name) for row in rows if row.is_fault] == []


def test_a_recipe_is_a_file_of_its_own(tmp_path):
    """The recipes cannot pass by being the same clip over and over."""
    written = [write_recipe(name, tmp_path).read_bytes() for name in list(RECIPES)[:8]]
    assert len(set(written)) == len(written)
