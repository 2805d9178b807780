"""Proxies come out the same however many work at them, and wherever a run was ended."""

from dataclasses import replace
from pathlib import Path

import pytest

from extraction.conftest import LENGTHS
from extraction.extracting import contents
from extraction.faults import killed
from extraction.proxies import proxying
from extraction.proxies.proxying import make
from headrace.decode.proxies import LIST, read_rows
from headrace.extraction.proxies.make_proxy import make_proxies
from headrace.testing import damage

pytestmark = pytest.mark.usefixtures("forked_children")
ALL = sum(LENGTHS)


@pytest.fixture
def run(clips, store, out):
    """Make proxies of the clips, or of other videos, in `out`; return what it came to."""

    def run(function=make_proxies, *, paths=clips, out=out, **given):
        return make(paths, out, store, function, **given)

    return run


@pytest.fixture(scope="module")
def whole(clips, store, tmp_path_factory):
    """The folder of the proxies that one worker made in one go."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert make(clips, out, store, workers=1).is_all
    return out


def check_same(out: Path, whole: Path) -> None:
    """Files and rows are equal, but for the time they took, and nothing half-written is left."""
    assert contents(out / "videos") == contents(whole / "videos")
    found, expected = ([replace(row, seconds=0.0) for row in read_rows(at)] for at in (out, whole))
    assert found == expected
    assert not list(out.rglob(".*.partial"))


def names(out: Path) -> list[str]:
    return [row.name for row in read_rows(out)]


def test_three_workers_leave_the_same_bytes_as_one(whole, run, out):
    assert run(workers=3).session.stages[0].workers == 3
    check_same(out, whole)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["60", "facts", "entry"])
def test_killed_and_run_again_it_is_as_if_nothing_had_been(whole, clips, store, run, out, moment):
    asked = ([*map(str, clips)], str(out), str(store))
    killed(proxying.main, *asked, HEADRACE_TEST_MOMENT=moment)
    assert not (out / LIST).exists()
    made = run(workers=2)
    # The longest, of 48 frames, is made first.
    assert (made.is_all, made.were_there) == (True, 48 if moment == "60" else 0)
    assert sum(made.session.steps.frames) == ALL - made.were_there
    check_same(out, whole)


def test_a_proxy_that_was_removed_or_cut_is_made_again(whole, run, out):
    run()
    (out / "videos" / "clip1.npz").unlink()
    (out / "videos" / "clip2.mp4").write_bytes(b"cut")
    assert run().were_there == 48
    check_same(out, whole)


def test_a_video_that_ends_its_workers_has_no_proxy_until_it_is_tried_again(whole, run, out):
    made = run(proxying.crashes_in_the_second_video, workers=2)
    words = "working on it crashed: the process ended by signal 11"
    lost = [(loss.input, loss.index, loss.cause) for loss in made.session.lost]
    assert (made.is_all, made.came, lost) == (False, 78, [(1, None, words)])
    assert names(out) == ["clip0", "clip2"]
    again = run()
    assert (again.is_all, len(again.session.steps)) == (False, 0)
    assert run(retry=True).is_all
    check_same(out, whole)


def test_a_full_disk_ends_it_and_the_next_run_goes_on(whole, run, out):
    session = run(proxying.runs_out_of_room, workers=1).session
    assert session.outcome == "failed"
    assert "no space left on device" in session.error
    assert names(out) == []
    assert run().is_all
    check_same(out, whole)


@pytest.mark.parametrize(
    ("place", "why"),
    [("mdat 1000", ""), ("moov 100", "("), ("read 0", "(input/output error)")],
    ids=["packet", "boxes", "nothing is read"],
)
def test_what_does_not_read_back_as_it_was_written_is_no_proxy(run, out, monkeypatch, place, why):
    monkeypatch.setenv("HEADRACE_TEST_MOMENT", place)
    session = run(proxying.is_rotten, workers=1).session
    assert session.outcome == "failed"
    said, _, end = session.error.partition("reads back otherwise than it was written to ")
    assert said.startswith("the proxy of ")
    assert why in end
    assert not (out / "videos").exists()


def test_a_damaged_video_has_no_proxy_or_one_that_is_marked(clips, run, tmp_path):
    bad = damage.damage_packets(clips[0], tmp_path / "bad.mp4", ordinals=[20])
    made = run(paths=[bad, clips[1]])
    assert (made.is_all, made.came, made.wanted) == (False, 25, 73)
    [loss] = made.session.lost
    assert (loss.input, loss.index, "cannot be decoded" in loss.cause) == (0, None, True)
    assert run(paths=[bad, clips[1]]).session.lost == made.session.lost

    made = run(paths=[bad], out=tmp_path / "conceal", on_error="conceal")
    [row] = read_rows(tmp_path / "conceal")
    assert (made.is_all, row.frames) == (True, 48)
    assert row.lost == tuple(loss.index for loss in made.session.lost if loss.is_concealed) != ()

    made = run(paths=[bad], out=tmp_path / "raise", on_error="raise")
    assert (made.session.outcome, made.came) == ("failed", 0)


def test_videos_of_a_size_that_the_encoder_refuses_are_named_and_end_no_other(clips, run, tmp_path):
    asked = {"paths": clips[:2], "size": "2", "codec": "hevc", "workers": 1}
    made = run(**asked)
    assert (made.session.outcome, made.is_all, made.came) == ("complete", False, 0)
    assert ["libx265 refuses that size" in loss.cause for loss in made.session.lost] == [True] * 2
    assert run(**asked, out=tmp_path / "raise", on_error="raise").session.outcome == "failed"
