"""`headrace doctor DATASET`: a table of problems within 80 columns, JSON, and exit codes."""

import json
import shutil

import pytest

from cli.kit import transcript
from loaders.lerobot.drawn import CAMERAS, DRAWN, Drawn, draw
from loaders.lerobot.faults import ROWS, VIDEO, cut, drop_rows, edit_rows, with_fault

TOP, WRIST = CAMERAS


@pytest.fixture
def sets(tmp_path, monkeypatch):
    """Datasets: `good`, `old`, and `bad` with a problem of most kinds."""
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "good", DRAWN["v3.0"])
    draw(tmp_path / "old", DRAWN["v2.1"])
    frames = {(WRIST, 1): 3, (TOP, 4): 11}
    bad = draw(tmp_path / "bad", Drawn(lengths=(7, 5, 9, 6, 8, 4), frames=frames, keyframes=False))
    for fault in ("timestamps off", "a value missing", "a video missing"):
        with_fault(bad, fault)
    cut(bad / VIDEO.replace(WRIST, TOP))
    (bad / "data/chunk-001/file-001.parquet").unlink()
    edit_rows(bad / ROWS, drop_rows(4, 5))
    return tmp_path


@pytest.mark.usefixtures("sets")
def test_problems_are_a_table_of_at_most_80_columns(holds, call):
    lines = ("doctor good", "doctor old", "doctor bad", "doctor bad --tolerance 0.06 --json")
    text = transcript(call, *lines)
    holds("doctor_dataset.txt", text)
    table = text.split("$ headrace doctor bad\n")[1].split("[1]")[0]
    assert max(map(len, table.splitlines())) <= 80


def test_json_has_each_problem_with_its_file(as_json, call, sets):
    assert as_json("doctor", sets / "good")["problems"] == []
    code, out, err = call("doctor", sets / "bad", "--json")
    record = json.loads(out)
    assert (code, err) == (1, "")
    files = {problem["file"] for problem in record["problems"] if problem["kind"] == "missing"}
    assert files == {str(sets / "bad" / VIDEO), str(sets / "bad/data/chunk-001/file-001.parquet")}


def test_a_truncated_table_states_the_number_of_further_problems(call, sets, monkeypatch):
    monkeypatch.setattr("headrace.cli.doctor._MAX_SHOWN", 2)
    code, out, _ = call("doctor", sets / "bad")
    assert code == 1
    assert "\nand 14 more, which --json lists\n" in out


def test_a_dataset_without_statistics_or_videos_is_checked(call, sets):
    folder = shutil.copytree(sets / "good", sets / "rows")
    with_fault(folder, "no cameras")
    output = f"4 episodes, 27 rows, 0 cameras: no problem in {folder}\n"
    assert call("doctor", folder) == (0, output, "")
