"""`headrace demo`: its run, its accuracy and its errors."""

import shlex

import pytest

from cli.kit import recorded


@pytest.mark.slow
def test_the_demo_labels_all_frames_correctly_and_prints_its_command(call, tmp_path):
    out = tmp_path / "demo"
    code, printed, _ = call("demo", "--out", out, "--quiet")
    assert code == 0
    assert "Correct labels: 180 of 180 frames in 2 videos" in printed
    assert recorded(out)["outcome"] == "complete"
    assert {path.name for path in out.iterdir()} >= {"report.html", "predictions.jsonl", "drawn"}

    command = printed.partition("$ headrace ")[2].partition("\n\n")[0].replace("\\\n", "")
    again = [*shlex.split(command), "--no-video", "--json"]
    before = (out / "predictions.jsonl").read_text("utf-8")
    assert call(*again)[0] == 0
    assert (out / "predictions.jsonl").read_text("utf-8") == before


def test_an_unwritable_folder_is_refused_before_videos_are_generated(call, tmp_path):
    (tmp_path / "taken").write_bytes(b"")
    code, printed, words = call("demo", "--out", tmp_path / "taken")
    assert (code, printed) == (2, "")
    assert "taken" in words
    assert "not a folder" in words
