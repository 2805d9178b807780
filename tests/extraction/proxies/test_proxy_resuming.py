"""Proxies come out the same however many work at them, and wherever a run was ended."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from extraction.proxies import proxy_workers
from extraction.proxies.conftest import LENGTHS
from extraction.proxies.proxying import make
from headrace.decode.proxy_rows import LIST, read_rows
from headrace.errors import ConfigError
from headrace.testing import damage


@pytest.fixture(scope="module")
def undisturbed(clips, store, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "out"
    assert make(clips, out, store, workers=1).is_all
    return out


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / "videos").iterdir()}


def rows(out: Path):
    return [replace(row, seconds=0.0) for row in read_rows(out)]


def test_three_workers_leave_the_same_bytes_as_one(undisturbed, clips, store, tmp_path):
    made = make(clips, tmp_path / "out", store, workers=3)
    assert made.session.stages[0].workers == 3
    assert contents(tmp_path / "out") == contents(undisturbed)
    assert rows(tmp_path / "out") == rows(undisturbed)


@pytest.mark.parametrize("moment", ["60", "facts", "entry"])
def test_killed_with_minus_9_and_run_again_it_is_as_if_nothing_had_been(
    undisturbed, clips, store, tmp_path, moment
):
    out = tmp_path / "out"
    asked = [list(map(str, clips)), str(out), str(store), "is_killed_with_its_parent"]
    killed = subprocess.run(
        [sys.executable, proxy_workers.__file__, json.dumps(asked)],
        env=os.environ
        | {
            "HEADRACE_TEST_MOMENT": moment,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        check=False,
    )
    assert killed.returncode == -9
    assert not (out / LIST).exists()
    made = make(clips, out, store, workers=2)
    # The longest, of 48 frames, is made first.
    assert (made.is_all, made.were_there) == (True, 48 if moment == "60" else 0)
    assert sum(made.session.steps.frames) == sum(LENGTHS) - made.were_there
    assert contents(out) == contents(undisturbed)
    assert rows(out) == rows(undisturbed)
    assert not list(out.rglob(".*.partial"))


def test_what_is_done_is_not_done_again(undisturbed, clips, store):
    before = {path: path.stat().st_mtime_ns for path in (undisturbed / "videos").iterdir()}
    again = make(clips, undisturbed, store)
    assert (again.were_there, len(again.session.steps)) == (sum(LENGTHS), 0)
    assert {p: p.stat().st_mtime_ns for p in (undisturbed / "videos").iterdir()} == before


def test_a_proxy_that_was_removed_or_cut_is_made_again(undisturbed, clips, store, tmp_path):
    out = tmp_path / "out"
    make(clips, out, store)
    (out / "videos" / "clip1.npz").unlink()
    (out / "videos" / "clip2.mp4").write_bytes(b"cut")
    assert make(clips, out, store).were_there == 48
    assert contents(out) == contents(undisturbed)


def test_a_video_that_ends_its_workers_has_no_proxy_until_it_is_tried_again(
    undisturbed, clips, store, tmp_path
):
    out = tmp_path / "out"
    made = make(clips, out, store, proxy_workers.crashes_in_the_second_video, workers=2)
    words = "working on it crashed: the process ended by signal 11"
    lost = [(loss.input, loss.index, loss.cause) for loss in made.session.lost]
    assert (made.is_all, made.came, lost) == (False, 78, [(1, None, words)])
    assert [row.name for row in read_rows(out)] == ["clip0", "clip2"]
    again = make(clips, out, store)
    assert (again.is_all, len(again.session.steps)) == (False, 0)
    assert make(clips, out, store, retry=True).is_all
    assert contents(out) == contents(undisturbed)


def test_a_full_disk_ends_it_and_the_next_run_goes_on(undisturbed, clips, store, tmp_path):
    out = tmp_path / "out"
    made = make(clips, out, store, proxy_workers.runs_out_of_room, workers=1)
    assert made.session.outcome == "failed"
    assert "no space left on device" in made.session.error
    assert [row.name for row in read_rows(out)] == []
    assert make(clips, out, store).is_all
    assert contents(out) == contents(undisturbed)
    assert not list(out.rglob(".*.partial"))


def test_what_does_not_read_back_as_it_was_written_is_no_proxy(clips, store, tmp_path):
    out = tmp_path / "out"
    made = make(clips, out, store, proxy_workers.is_rotten, workers=1)
    assert made.session.outcome == "failed"
    assert "reads back otherwise than it was written" in made.session.error
    assert not (out / "videos").exists()


def test_a_damaged_video_has_no_proxy_or_one_that_is_marked(clips, store, tmp_path):
    bad = damage.damage_packets(clips[0], tmp_path / "bad.mp4", ordinals=[20])
    made = make([bad, clips[1]], tmp_path / "skip", store)
    assert (made.is_all, made.came, made.wanted) == (False, 25, 73)
    [loss] = made.session.lost
    assert (loss.input, loss.index, "cannot be decoded" in loss.cause) == (0, None, True)
    assert make([bad, clips[1]], tmp_path / "skip", store).session.lost == made.session.lost

    made = make([bad], tmp_path / "conceal", store, on_error="conceal")
    [row] = read_rows(tmp_path / "conceal")
    assert (made.is_all, row.frames) == (True, 48)
    assert row.lost
    assert row.lost == tuple(loss.index for loss in made.session.lost if loss.is_concealed)

    made = make([bad], tmp_path / "raise", store, on_error="raise")
    assert (made.session.outcome, made.came) == ("failed", 0)


def test_another_request_or_a_folder_of_something_else_is_refused(
    undisturbed, clips, store, tmp_path
):
    with pytest.raises(ConfigError, match="gop was 8, now 4"):
        make(clips, undisturbed, store, gop=4)
    with pytest.raises(ConfigError, match="is not asked for now"):
        make(clips[:1], undisturbed, store)
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds something else"):
        make(clips, tmp_path, store)


def test_pytorch_is_not_loaded():
    code = "import headrace.extraction.proxies.proxy_making, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_videos_of_a_size_that_the_encoder_refuses_are_named_and_end_no_other(
    clips, store, tmp_path
):
    asked = {"size": "2", "codec": "hevc", "workers": 1}
    made = make(clips[:2], tmp_path / "out", store, **asked)
    assert (made.session.outcome, made.is_all, made.came) == ("complete", False, 0)
    assert ["libx265 refuses that size" in loss.cause for loss in made.session.lost] == [True] * 2
    made = make(clips[:2], tmp_path / "raise", store, on_error="raise", **asked)
    assert made.session.outcome == "failed"
