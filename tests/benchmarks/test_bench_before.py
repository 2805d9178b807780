"""bench_before: this tree and another commit, interleaved."""

import pytest

from benchmarks.bench_before import QUESTIONS, Comparison, Turn, checked_out, render, request, turn
from benchmarks.record import Repeat
from benchmarks.worker import SOURCE, ask_worker
from headrace.testing.synth import SynthClip, write_clip


def test_the_ratio_is_the_median_of_the_repeats():
    turns = (Turn(before=100, after=110), Turn(before=50, after=100), Turn(before=200, after=180))
    row = Comparison(question="scan", kind="web", turns=turns)
    assert row.ratio == pytest.approx(1.1)
    assert render(row) == "web scan: 1.10 of the rate before (0.90 to 2.00); 100 -> 110 per second"


def test_the_first_tree_alternates(tmp_path):
    measured = []

    def repeat(source):
        measured.append(source)
        seconds = 1.0 if source == SOURCE else 2.0
        return Repeat(
            frames=4, wall_seconds=seconds, cpu_seconds=3.0, others_cpu_seconds=seconds - 1
        )

    turns = [turn(repeat, tmp_path, is_odd=bool(number % 2)) for number in range(2)]
    assert measured == [tmp_path, SOURCE, SOURCE, tmp_path]
    assert {(both.ratio, both.others_share) for both in turns} == {(2.0, 0.25)}


def test_the_other_commit_is_checked_out_and_removed():
    with checked_out("HEAD") as (commit, tree):
        assert (tree / "src" / "headrace" / "__init__.py").is_file()
        assert commit
    assert not tree.exists()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_worker_answers_every_question(question, tmp_path, forked_workers):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=130, size=(64, 96)))
    if question == "cameras":
        for camera in ("back", "front"):
            for clip in ("one", "two"):
                folder = tmp_path / "videos" / clip
                folder.mkdir(parents=True, exist_ok=True)
                write_clip(folder / camera, SynthClip(num_frames=6))
        path = tmp_path / "index.json"
        path.write_text('{"videos": {"one": 6, "two": 6}}')
    task = request(question, [path], workers=1, seconds=0.01)
    assert Repeat(**ask_worker(task, cache=tmp_path)).frames_per_second > 0
