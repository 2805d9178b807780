"""What is wrong with the files of a layout is named, all of it, and what to do about it."""

import shutil
from dataclasses import replace
from fractions import Fraction

import pytest

from headrace.decode.open import open_index
from headrace.errors import ConfigError
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.cameras.alignment import Alignment, CameraClock
from headrace.training.cameras.problems import camera_problems
from headrace.video.camera_layout import CameraLayout

CAMERAS = ("back", "front", "left")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Three clips of three cameras, 6 frames each."""
    folder = tmp_path_factory.mktemp("whole")
    for clip in ("a", "b", "c"):
        (folder / clip).mkdir()
        for camera in CAMERAS:
            write_clip(folder / clip / camera, SynthClip(num_frames=6, size=(64, 96)))
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "videos")


@pytest.fixture
def problems(folder, store):
    """Return a function: what is wrong with the folder, or with another layout."""

    def found(layout=None, **alignment):
        layout = layout or layout_of(folder, store)
        return list(camera_problems(layout, Alignment(**alignment), store=store))

    return found


def layout_of(folder, store):
    return CameraLayout.of_folders([folder], lambda file: len(open_index(file, store)))


def with_camera(path, **options):
    """Put another camera where one was, or none is."""
    path.unlink(missing_ok=True)
    write_clip(path.with_suffix(""), SynthClip(size=(64, 96), **options))


def test_whole_files_have_no_problem(problems):
    assert problems() == problems(sync="nearest", tolerance_ms=1) == []


def test_every_missing_and_damaged_camera_is_named_with_what_to_do(problems, folder, store):
    (folder / "a" / "back.mp4").unlink()
    (folder / "a" / "left.mp4").unlink()
    (folder / "b" / "back.mp4").write_text("no video")
    (folder / "c" / "front.mp4").write_bytes(b"")
    layout = layout_of(folder, store)
    assert [(clip.name, clip.num_frames) for clip in layout.clips] == [("a", 6), ("b", 6), ("c", 6)]
    leaves_out = "choose on_error='mask', which leaves out the clip"
    first, second, third, fourth = problems(layout)
    for camera, said in {"back": first, "left": second}.items():
        assert said == (
            f"{folder}/a/{camera}.mp4 is missing; add it, or choose on_missing='mask', which "
            "leaves its pictures black"
        )
    assert third.startswith(f"cannot open {folder}/b/back.mp4: ")
    assert "; give a video file; or " in third
    assert fourth.startswith(f"cannot open {folder}/c/front.mp4: the file is empty")
    for said in (third, fourth):
        assert said.endswith(f"{leaves_out}, or only this camera with on_missing='mask' as well")
    first, second, third, fourth = problems(layout, reference="back")
    assert first == f"{folder}/a/back.mp4 is missing; add it, or {leaves_out}"
    assert "which leaves its pictures black" in second
    assert third.endswith(f"; give a video file; or {leaves_out}")
    assert fourth.endswith("as well")


def test_a_clip_without_any_camera_is_named(problems, folder):
    for camera in CAMERAS:
        (folder / "b" / f"{camera}.mp4").write_text("no video")
    found = problems()
    assert len(found) == 4
    assert found[-1] == f"{folder}/b is not in the index: none of its cameras can be read"


def test_a_clip_of_the_index_file_whose_files_are_gone_is_to_be_taken_out(problems, folder, store):
    layout = layout_of(folder, store)
    shutil.rmtree(folder / "b")
    assert problems(layout)[-1] == (
        f"{folder}/b: none of its cameras can be read; take it out of the index file"
    )


def test_what_was_there_before_is_named_where_later_frames_do_not_count(problems, folder):
    with_camera(folder / "a" / "back.mp4", num_frames=6, frame_rate=Fraction(5))
    with_camera(folder / "a" / "front.mp4", num_frames=3, frame_rate=Fraction(5, 2))
    said = problems(sync="previous", on_missing="mask")[0]
    assert "a/front.mp4 has no frame for 3 of 6 moments" in said
    assert "its latest earlier frame is 200.0 ms away, 50 are tolerated" in said


def test_cameras_of_other_lengths_are_named_with_what_to_do(problems, folder):
    with_camera(folder / "a" / "front.mp4", num_frames=4)
    with_camera(folder / "c" / "left.mp4", num_frames=9)
    early, late = problems()
    assert early == (
        f"{folder}/a/front.mp4 has no frame for 2 of 6 moments, the first is frame 4 of the first "
        "camera: it has 4 frames, the first camera 6; choose on_missing='drop', 'mask' "
        "or 'repeat' in Alignment"
    )
    assert late == (
        f"{folder}/c/back.mp4 ends after 6 frames, {folder}/c/left.mp4 has 9; choose "
        "on_missing='drop', 'mask' or 'repeat' in Alignment"
    )


def test_where_the_first_camera_is_missing_the_next_is_the_measure(problems, folder):
    (folder / "b" / "back.mp4").unlink()
    with_camera(folder / "b" / "left.mp4", num_frames=5)
    missing, early = problems()
    assert "b/back.mp4 is missing" in missing
    assert "b/left.mp4 has no frame for 1 of 6 moments" in early


def test_an_index_that_disagrees_is_named_once_for_each_clip(problems, folder, store):
    layout = layout_of(folder, store)
    a, *others = layout.clips
    [said] = problems(replace(layout, clips=(replace(a, num_frames=8), *others)))
    assert said == (
        f"the index file says 8 frames, {folder}/a/back.mp4 has 6; write it anew: headrace index "
        f"--layout cameras {folder} --out FILE"
    )


def test_a_frame_rate_of_its_own_is_a_problem_by_index_and_none_by_time(problems, folder):
    for clip in ("a", "b", "c"):
        options = {"num_frames": 12, "frame_rate": Fraction(60)}
        with_camera(folder / clip / "front.mp4", **options)
        with_camera(folder / clip / "back.mp4", num_frames=6, frame_rate=Fraction(30))
        with_camera(folder / clip / "left.mp4", num_frames=6, frame_rate=Fraction(30))
    by_index = problems()
    assert len(by_index) == 3
    assert by_index[0].endswith(
        "choose on_missing='drop', 'mask' or 'repeat' in Alignment; or, as it has 60 frames/s "
        "and the first camera 30, align them by time with sync='nearest' or 'previous'"
    )
    assert problems(sync="nearest") == problems(sync="previous") == []


def test_by_time_a_camera_that_ends_early_is_a_problem(problems, folder):
    with_camera(folder / "a" / "back.mp4", num_frames=30, frame_rate=Fraction(30))
    with_camera(folder / "a" / "front.mp4", num_frames=30, frame_rate=Fraction(60))
    with_camera(folder / "a" / "left.mp4", num_frames=60, frame_rate=Fraction(60))
    [said] = problems(sync="nearest", on_missing="mask")
    assert "a/front.mp4 has no frame for 13 of 30 moments, the first is frame 17" in said
    assert (
        "50 are tolerated; choose on_missing='drop', 'mask' or 'repeat' in Alignment, or raise "
        "tolerance_ms" in said
    )


def test_cameras_are_held_against_the_reference_by_its_name(problems, folder):
    with_camera(folder / "a" / "back.mp4", num_frames=4)
    [said] = problems(reference="front")
    assert said == (
        f"{folder}/a/back.mp4 has no frame for 2 of 6 moments, the first is frame 4 of camera "
        "front: it has 4 frames, camera front 6; choose on_missing='drop', 'mask' or 'repeat' in "
        "Alignment"
    )
    with pytest.raises(ConfigError, match="reference must be one of the cameras that are read, ba"):
        problems(reference="top")


def test_clocks_decide_what_fits(problems, folder, store):
    clocks = {"left": CameraClock(offset_seconds=1.0)}
    assert len(problems(sync="nearest", clocks=clocks)) == 3
    with pytest.raises(ConfigError, match="no camera top to set a clock for"):
        problems(sync="nearest", clocks={"top": CameraClock()})
    with pytest.raises(ConfigError, match="alignment must be an Alignment"):
        list(camera_problems(layout_of(folder, store), "nearest", store=store))


def test_progress_counts_the_clips(folder, store):
    done = []
    layout = layout_of(folder, store)
    assert list(camera_problems(layout, store=store, on_progress=done.append)) == []
    assert done == [1, 2, 3]
