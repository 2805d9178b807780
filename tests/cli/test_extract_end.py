"""What is said when an extraction is over."""

import pytest
import typer

from extraction.features import feature_workers
from headrace.cli.extract_end import Words, conclude
from headrace.cli.stopping import Ending
from headrace.testing.synth import SynthClip, write_clip

WORDS = Words(noun="feature", sample="frame", none="gave no feature")


@pytest.fixture
def clips(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.extraction.features.chunks._CHUNK_PIXELS", 1.0)
    return [
        write_clip(tmp_path / f"clip{number}", SynthClip(num_frames=30, gop=10, size=(64, 96)))
        for number in range(2)
    ]


def concluded(clips, tmp_path, function):
    """Return the exit code at the end of an extraction."""
    extracted = feature_workers.extract(clips, tmp_path / "out", tmp_path / "store", function)
    with pytest.raises(typer.Exit) as end:
        conclude(extracted, tmp_path / "out", WORDS, Ending(), as_json=True)
    return end.value.exit_code


def test_what_is_lost_is_told_with_its_video_where_the_cause_does_not_name_it(
    clips, tmp_path, capsys
):
    assert concluded(clips, tmp_path, feature_workers.crashes) == 3
    first, *named = capsys.readouterr().err.splitlines()
    assert first == "headrace: 4 frames of 12 did not come:"
    assert named[:2] == [
        "  frame 25 of clip0.mp4: damaged",
        "  frames 10, 15 of clip1.mp4: working on it crashed: the process ended by signal 11",
    ]


def test_where_the_report_cannot_be_written_it_is_said_what_is_done_all_the_same(
    clips, tmp_path, capsys
):
    (tmp_path / "out" / ".extraction").mkdir(parents=True)
    extracted = feature_workers.planned(
        clips, tmp_path / "out", tmp_path / "store", feature_workers.runs_out_of_room
    ).run()
    (tmp_path / "out" / "report.html").mkdir()
    with pytest.raises(typer.Exit) as end:
        conclude(extracted, tmp_path / "out", WORDS, Ending(), as_json=True)
    assert end.value.exit_code == 1
    report, failure = capsys.readouterr().err.splitlines()
    assert "report.html" in report
    assert "no space left on device" in failure
    kept = f"features are done in {tmp_path}/out; run the same command again to go on"
    assert failure.endswith(kept)
