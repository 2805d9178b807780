"""Runs that end early: their records and results; sources that a run would overwrite."""

import os
from fractions import Fraction
from itertools import count

import pytest
import torch

from headrace.errors import ConfigError
from headrace.report.folder import write_run
from headrace.sinks.video_file import VideoFile
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip
from runs.kit import annotated_frames, numbers, predictions
from runs.tiny import Brightness, Failing
from sinks.made import disk_full_after, noise

VIDEO_AND_LINES = ("annotated.mp4", "predictions.jsonl")


@pytest.fixture
def damaged(tmp_path):
    good = write_clip(tmp_path / "good", SynthClip())
    return damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[30])


def test_damage_ends_the_run_and_earlier_results_remain(tiny, folder, damaged):
    session = tiny(source=damaged).run()
    assert session.outcome == "failed"
    assert session.error.startswith(f"frame 30 of {damaged} cannot be decoded")
    assert sum(session.steps.frames) == 30 == len(annotated_frames(folder))
    assert session.outputs == VIDEO_AND_LINES


def test_a_full_disk_ends_the_run_and_the_video_up_to_it_is_playable(tiny, folder, tmp_path):
    source = tmp_path / "noise.mp4"
    with VideoFile(source, Fraction(25)) as video:
        for k, frame in enumerate(noise(150)):
            video.write(frame, k / 25)
    runner = tiny(source=source)
    with disk_full_after(3_000_000):
        session = runner.run()
    words = "annotated.mp4: file too large; the written part plays; give another folder"
    assert (session.outcome, words in session.error) == ("failed", True)
    assert session.outputs == VIDEO_AND_LINES
    assert 60 <= len(annotated_frames(folder)) < 150
    assert len(predictions(folder)) >= 60
    assert write_run(session, folder).outputs[-1] == "session.json"


def test_with_skip_damaged_frames_are_listed_with_their_video(tiny, tall_clip, folder, damaged):
    session = tiny(source=damaged, on_error="skip").run()
    assert session.outcome == "complete"
    assert [frame.index for frame in session.lost] == list(range(30, 36))
    assert session.lost[0].pts_seconds == pytest.approx(1.0)
    assert sum(session.steps.frames) == 42 == len(annotated_frames(folder))
    session = tiny(source=[tall_clip, damaged], on_error="skip", video=False).run()
    assert {frame.input for frame in session.lost} == {1}


def test_a_run_without_a_good_frame_leaves_no_video(tiny, tmp_path, folder):
    good = write_clip(tmp_path / "good", SynthClip(num_frames=12))
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[0])
    session = tiny(source=bad).run()
    assert (session.outcome, sum(session.steps.frames), session.outputs) == ("failed", 0, ())
    assert list(folder.iterdir()) == []


def test_an_interrupt_keeps_earlier_results(tiny, folder):
    def interrupt(step) -> None:
        if step.step == 2:
            raise KeyboardInterrupt

    session = tiny(batch_size=2).run(interrupt)
    assert (session.outcome, session.error) == ("interrupted", None)
    assert sum(session.steps.frames) == 6
    drawn = numbers(folder)
    assert drawn == list(range(len(drawn)))
    assert 6 <= len(drawn) <= 30


class Large(Brightness):
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.empty(10**15) if batch.mean() > 0 else super().forward(batch)


def test_a_failed_model_is_recorded_with_its_first_error_line_and_advice(tiny, folder):
    steps, error = count(1), RuntimeError("out of memory\nException raised from allocate")
    session = tiny(Failing(error, lambda batch: next(steps) > 2)).run()
    message = "stage 'model' failed on item 2: RuntimeError: out of memory"
    assert (session.outcome, session.error, sum(session.steps.frames)) == ("failed", message, 16)
    assert numbers(folder) == list(range(16))
    session = tiny(Large()).run()
    assert (session.outcome, "can't allocate memory" in session.error) == ("failed", True)
    assert session.error.endswith("; use a smaller --batch-size")


def test_a_deleted_file_is_recorded_as_a_failure(tiny, tall_clip):
    runner = tiny()
    tall_clip.unlink()
    session = runner.run()
    assert (session.outcome, "no such file" in session.error) == ("failed", True)


def test_an_error_of_on_step_propagates_and_the_video_is_finished(tiny, folder):
    def fail(step) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tiny().run(fail)
    assert len(numbers(folder)) >= 8


def test_a_runner_can_run_again_if_it_can_write(tiny, folder):
    runner = tiny()
    first, second = runner.run(), runner.run()
    assert first.steps == second.steps
    assert first.wall_seconds == second.wall_seconds == 0
    assert numbers(folder) == list(range(30))
    (folder / "annotated.mp4").unlink()
    (folder / "annotated.mp4").mkdir()
    with pytest.raises(ConfigError, match=r"cannot write .*annotated\.mp4: is a directory"):
        runner.run()


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_a_source_that_an_annotated_video_would_replace_is_refused(
    tall_clip, folder, prepare, link
):
    before = tall_clip.read_bytes()
    link(tall_clip, folder / "annotated.mp4")
    for source in (tall_clip, folder / "annotated.mp4"):
        with pytest.raises(ConfigError, match="an annotated video would replace its source"):
            prepare(source)
    assert tall_clip.read_bytes() == before
