"""Proxies depend on neither the number of workers nor interruptions."""

from dataclasses import replace
from pathlib import Path

import pytest

from extraction.conftest import LENGTHS
from extraction.extracting import contents
from extraction.faults import run_until_killed
from extraction.proxies import proxying
from extraction.proxies.proxying import make
from headrace.decode.proxies import LIST, read_rows
from headrace.extraction.proxies.proxy_extraction import make_proxies
from headrace.testing import damage

ALL = sum(LENGTHS)


@pytest.fixture
def run(clips, store, out):
    """Return a function that makes proxies of the clips, or of other videos, in `out`."""

    def run(function=make_proxies, *, paths=clips, out=out, **options):
        return make(paths, out, store, function, **options)

    return run


@pytest.fixture(scope="module")
def uninterrupted(clips, store, tmp_path_factory):
    """Return the output folder of one worker and one run."""
    out = tmp_path_factory.mktemp("uninterrupted") / "out"
    assert make(clips, out, store, workers=1).is_all
    return out


def check_same(out: Path, expected: Path) -> None:
    """Check that files and rows are equal, except for times, and no partial file is left."""
    assert contents(out / "videos") == contents(expected / "videos")
    rows, expected_rows = (
        [replace(row, seconds=0.0) for row in read_rows(folder)] for folder in (out, expected)
    )
    assert rows == expected_rows
    assert not list(out.rglob(".*.partial"))


def names(out: Path) -> list[str]:
    return [row.name for row in read_rows(out)]


def test_three_workers_write_the_same_bytes_as_one(uninterrupted, run, out):
    assert run(workers=3).session.stages[0].workers == 3
    check_same(out, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["60", "facts", "entry"])
def test_a_killed_run_is_resumed_to_the_same_output(uninterrupted, clips, store, run, out, moment):
    arguments = ([*map(str, clips)], str(out), str(store))
    run_until_killed(proxying.main, *arguments, HEADRACE_TEST_MOMENT=moment)
    assert not (out / LIST).exists()
    result = run(workers=2)
    # The longest video, of 48 frames, is first.
    assert (result.is_all, result.were_there) == (True, 48 if moment == "60" else 0)
    assert sum(result.session.steps.frames) == ALL - result.were_there
    check_same(out, uninterrupted)


def test_a_removed_or_truncated_proxy_is_made_again(uninterrupted, run, out):
    run()
    (out / "videos" / "clip1.npz").unlink()
    (out / "videos" / "clip2.mp4").write_bytes(b"cut")
    assert run().were_there == 48
    check_same(out, uninterrupted)


def test_a_video_that_ends_its_workers_is_skipped_until_a_retry(uninterrupted, run, out):
    result = run(proxying.crashes_in_the_second_video, workers=2)
    cause = "working on it crashed: the process ended by signal 11"
    lost = [(loss.input, loss.index, loss.cause) for loss in result.session.lost]
    assert (result.is_all, result.came, lost) == (False, 78, [(1, None, cause)])
    assert names(out) == ["clip0", "clip2"]
    again = run()
    assert (again.is_all, len(again.session.steps)) == (False, 0)
    assert run(retry=True).is_all
    check_same(out, uninterrupted)


def test_a_full_disk_ends_a_run_and_the_next_one_resumes(uninterrupted, run, out):
    session = run(proxying.runs_out_of_room, workers=1).session
    assert session.outcome == "failed"
    assert "no space left on device" in session.error
    assert names(out) == []
    assert run().is_all
    check_same(out, uninterrupted)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [("mdat 1000", ""), ("moov 100", "("), ("read 0", "(input/output error)")],
    ids=["packet", "boxes", "read error"],
)
def test_a_proxy_that_is_damaged_on_disk_ends_the_run(run, out, monkeypatch, damage, reason):
    monkeypatch.setenv("HEADRACE_TEST_MOMENT", damage)
    session = run(proxying.has_a_damaged_disk, workers=1).session
    assert session.outcome == "failed"
    start, _, end = session.error.partition(" was read back with errors from ")
    assert start.startswith("the proxy of ")
    assert reason in end
    assert not (out / "videos").exists()


def test_a_damaged_video_is_skipped_concealed_or_an_error(clips, run, tmp_path):
    bad = damage.damage_packets(clips[0], tmp_path / "bad.mp4", ordinals=[20])
    result = run(paths=[bad, clips[1]])
    assert (result.is_all, result.came, result.wanted) == (False, 25, 73)
    [loss] = result.session.lost
    assert (loss.input, loss.index, "cannot be decoded" in loss.cause) == (0, None, True)
    assert run(paths=[bad, clips[1]]).session.lost == result.session.lost

    result = run(paths=[bad], out=tmp_path / "conceal", on_error="conceal")
    [row] = read_rows(tmp_path / "conceal")
    assert (result.is_all, row.frames) == (True, 48)
    assert row.lost == tuple(loss.index for loss in result.session.lost if loss.is_concealed) != ()

    result = run(paths=[bad], out=tmp_path / "raise", on_error="raise")
    assert (result.session.outcome, result.came) == ("failed", 0)


def test_videos_of_a_size_unsupported_by_the_encoder_are_skipped_or_an_error(clips, run, tmp_path):
    options = {"paths": clips[:2], "size": "2", "codec": "hevc", "workers": 1}
    result = run(**options)
    assert (result.session.outcome, result.is_all, result.came) == ("complete", False, 0)
    message = "libx265 does not support this size"
    assert [message in loss.cause for loss in result.session.lost] == [True] * 2
    assert run(**options, out=tmp_path / "raise", on_error="raise").session.outcome == "failed"
